"""Systems in Python as text of C++, with the lines of the Python file."""
