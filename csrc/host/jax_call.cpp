// Calls of Python from programs that JAX has compiled, as a foreign function of XLA. JAX's own callbacks make arrays and
// dispatch copies of them, which takes 0.3 milliseconds a call; this one passes the memory of arguments and results on
// (torch_batchsim/adapters/jax.py).
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

PyObject *callee;  // takes two numbers and two tuples of memory; returns None, or the text of an error

// A new reference, as all below; null with Python's error set, or after a null.
PyObject *memory_of(const ffi::AnyBuffer &buffer) {
    const auto size = static_cast<Py_ssize_t>(buffer.size_bytes());
    return PyMemoryView_FromMemory(static_cast<char *>(buffer.untyped_data()), size, PyBUF_WRITE);
}

PyObject *memory_of(ffi::Result<ffi::AnyBuffer> &buffer) { return memory_of(*buffer); }

template <class Buffers>
PyObject *memory_of_all(Buffers &buffers) {
    PyObject *const all = PyTuple_New(static_cast<Py_ssize_t>(buffers.size()));
    for (std::size_t i = 0; all && i < buffers.size(); ++i) {
        auto buffer = buffers.template get<ffi::AnyBuffer>(i);
        PyObject *const memory = buffer.has_value() ? memory_of(*buffer) : nullptr;
        if (!memory) {
            Py_DECREF(all);
            return nullptr;
        }
        PyTuple_SET_ITEM(all, static_cast<Py_ssize_t>(i), memory);
    }
    return all;
}

// The text of an error, empty where there was none.
std::string call_python(long long environment, long long call, ffi::RemainingArgs &arguments, ffi::RemainingRets &results) {
    PyObject *const given = memory_of_all(arguments), *const made = memory_of_all(results);
    PyObject *const said = given && made ? PyObject_CallFunction(callee, "LLOO", environment, call, given, made) : nullptr;
    const char *const text = said && PyUnicode_Check(said) ? PyUnicode_AsUTF8(said) : nullptr;
    const std::string error = text ? text : said == Py_None ? "" : "Python could not be called";
    PyErr_Clear();
    Py_XDECREF(given);
    Py_XDECREF(made);
    Py_XDECREF(said);
    return error;
}

ffi::Error call(std::int64_t environment, std::int64_t number, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
    const PyGILState_STATE state = PyGILState_Ensure();
    const std::string error = call_python(environment, number, arguments, results);
    PyGILState_Release(state);
    return error.empty() ? ffi::Error::Success() : ffi::Error(ffi::ErrorCode::kInternal, error);
}

XLA_FFI_DEFINE_HANDLER(handler, call,
                       ffi::Ffi::Bind()
                           .Attr<std::int64_t>("environment")
                           .Attr<std::int64_t>("call")
                           .RemainingArgs()
                           .RemainingRets());

PyObject *handler_for(PyObject *, PyObject *function) {
    Py_XSETREF(callee, Py_NewRef(function));
    return PyCapsule_New(reinterpret_cast<void *>(handler), nullptr, nullptr);
}

PyMethodDef functions[] = {{"handler_for", handler_for, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "jax_call", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_jax_call() { return PyModule_Create(&module); }
