// What a loop that is watched does after each step, in one call from Python: it counts the step, adds the rewards and
// infos of shown rows to their sums, and looks whether a frame is due. Python takes over a microsecond for that, and a
// step of 4,096 CartPoles fourteen.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <ATen/dlpack.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

struct Rows {
    std::vector<std::int64_t> numbers;
    bool together = true;  // each one more than the one before
};

// One output of which rows are summed: its field of the outputs, and that of the values at an episode's end, or null.
struct Part {
    PyObject *field, *final_field;
    char type;  // the letter in NumPy
};

struct Shown {
    Rows rows;
    std::vector<Part> parts;
    PyObject *done = nullptr;  // the field that says of which rows final values count
    Py_buffer sums{};          // double [parts, rows]

    ~Shown() {
        for (const Part &part : parts) Py_DECREF(part.field), Py_XDECREF(part.final_field);
        Py_XDECREF(done);
        if (sums.obj) PyBuffer_Release(&sums);
    }
};

struct StepCounter {
    PyObject_HEAD
    vectorcallfunc call;
    const DLPackExchangeAPI *exchange;
    PyObject *outputs;  // torch_batchsim.memory.outputs.Outputs
    Shown *shown;
    double due;                      // in the seconds of time.perf_counter
    long long steps, added;          // steps since the beginning; those that the sums have
    char busy, counting, counted;    // see torch_batchsim/watch/counts.py
};

PyObject *present_name, *tensors_name, *data_ptr_name;

// Where the memory of an output lies: torch may have moved it since the step, to share it with another process.
const void *memory_of(const StepCounter &self, PyObject *tensors, PyObject *field) {
    PyObject *const tensor = PyDict_GetItemWithError(tensors, field);
    if (!tensor) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, field);
        return nullptr;
    }
    DLTensor seen;
    if (!self.exchange->dltensor_from_py_object_no_sync(tensor, &seen))
        return static_cast<const char *>(seen.data) + seen.byte_offset;
    PyErr_Clear();  // of a tensor that is not for other libraries
    PyObject *const address = PyObject_CallMethodNoArgs(tensor, data_ptr_name);
    if (!address) return nullptr;
    const void *const found = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    return found;
}

// Of rows that lie together the compiler takes several at once: most often pages show the first worlds.
template <class T>
__attribute__((optimize("O3"))) void add(const void *values, const void *last, const bool *done, const Rows &rows,
                                         double *sums) {
    const T *const now = static_cast<const T *>(values), *const end = static_cast<const T *>(last);
    const auto finite = [](double value) { return value - value == 0 ? value : 0.0; };
    const std::size_t count = rows.numbers.size();
    if (!end && rows.together) {
        const T *const first = now + rows.numbers[0];
        for (std::size_t i = 0; i < count; ++i) sums[i] += finite(double(first[i]));
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t row = rows.numbers[i];
        sums[i] += finite(double(end && done[row] ? end[row] : now[row]));
    }
}

bool add_part(char type, const void *now, const void *last, const bool *done, const Rows &rows, double *sums) {
    switch (type) {
    case 'f': add<float>(now, last, done, rows, sums); return true;
    case 'd': add<double>(now, last, done, rows, sums); return true;
    case 'b': add<signed char>(now, last, done, rows, sums); return true;
    case 'h': add<short>(now, last, done, rows, sums); return true;
    case 'i': add<int>(now, last, done, rows, sums); return true;
    case 'l': add<long>(now, last, done, rows, sums); return true;
    case 'q': add<long long>(now, last, done, rows, sums); return true;
    case 'B': add<unsigned char>(now, last, done, rows, sums); return true;
    case 'H': add<unsigned short>(now, last, done, rows, sums); return true;
    case 'I': add<unsigned int>(now, last, done, rows, sums); return true;
    case 'L': add<unsigned long>(now, last, done, rows, sums); return true;
    case 'Q': add<unsigned long long>(now, last, done, rows, sums); return true;
    case '?': add<bool>(now, last, done, rows, sums); return true;
    }
    return false;
}

// Adds the outputs of the last step; final: of rows that have ended the final ones. Returns false with an error set.
bool add_step(StepCounter &self, bool final = true) {
    if (!self.shown || self.shown->rows.numbers.empty()) return true;
    PyObject *const present = PyObject_GetAttr(self.outputs, present_name);
    PyObject *const tensors = present ? PyObject_GetAttr(present, tensors_name) : nullptr;
    Py_XDECREF(present);
    if (!tensors) return false;
    const Shown &shown = *self.shown;
    final = final && shown.done;
    const bool *const done = final ? static_cast<const bool *>(memory_of(self, tensors, shown.done)) : nullptr;
    double *sums = static_cast<double *>(shown.sums.buf);
    for (const Part &part : shown.parts) {
        const void *const now = memory_of(self, tensors, part.field);
        const void *const last = final && part.final_field ? memory_of(self, tensors, part.final_field) : nullptr;
        if (PyErr_Occurred()) break;
        add_part(part.type, now, last, done, shown.rows, sums);
        sums += shown.rows.numbers.size();
    }
    Py_DECREF(tensors);
    self.added += !PyErr_Occurred();
    return !PyErr_Occurred();
}

// After a step: whether the viewer has to do more.
PyObject *run(PyObject *object, PyObject *const *, std::size_t count, PyObject *keywords) {
    StepCounter &self = *reinterpret_cast<StepCounter *>(object);
    if (PyVectorcall_NARGS(count) || keywords) {
        PyErr_SetString(PyExc_TypeError, "a StepCounter takes no arguments");
        return nullptr;
    }
    ++self.steps;
    if (self.counting && !self.counted && !add_step(self)) return nullptr;
    self.counted = false;
    if (self.busy) Py_RETURN_TRUE;
    if (std::isinf(self.due)) Py_RETURN_FALSE;
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    return PyBool_FromLong(now.count() >= self.due);
}

PyObject *add_from_python(PyObject *object, PyObject *arguments) {
    int final = true;
    if (!PyArg_ParseTuple(arguments, "|p", &final)) return nullptr;
    if (!add_step(*reinterpret_cast<StepCounter *>(object), final)) return nullptr;
    Py_RETURN_NONE;
}

// show(rows, parts, done, sums): bytes of int64; (field, final field or None, type) of each part; field or None; double
PyObject *show(PyObject *object, PyObject *arguments) {
    StepCounter &self = *reinterpret_cast<StepCounter *>(object);
    const char *rows;
    Py_ssize_t size;
    PyObject *parts, *done, *sums;
    if (!PyArg_ParseTuple(arguments, "y#O!OO", &rows, &size, &PyTuple_Type, &parts, &done, &sums)) return nullptr;
    auto *const made = new Shown;
    std::vector<std::int64_t> &numbers = made->rows.numbers;
    numbers.assign(reinterpret_cast<const std::int64_t *>(rows), reinterpret_cast<const std::int64_t *>(rows + size));
    for (std::size_t i = 0; i < numbers.size(); ++i) made->rows.together &= numbers[i] == numbers[0] + std::int64_t(i);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts) && !PyErr_Occurred(); ++i) {
        PyObject *field, *final_field;
        int type;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(parts, i), "UOC", &field, &final_field, &type)) break;
        if (final_field == Py_None) final_field = nullptr;
        made->parts.push_back({Py_NewRef(field), Py_XNewRef(final_field), char(type)});
        if (!add_part(char(type), nullptr, nullptr, nullptr, {{}, false}, nullptr))
            PyErr_Format(PyExc_ValueError, "a StepCounter adds no numbers of type %c", type);
    }
    made->done = done == Py_None ? nullptr : Py_NewRef(done);
    if (!PyErr_Occurred() && !PyObject_GetBuffer(sums, &made->sums, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) &&
        std::size_t(made->sums.len) != numbers.size() * made->parts.size() * sizeof(double))
        PyErr_SetString(PyExc_ValueError, "the sums of a StepCounter are double [parts, rows]");
    if (PyErr_Occurred()) {
        delete made;
        return nullptr;
    }
    delete self.shown;
    self.shown = made;
    self.added = 0;
    Py_RETURN_NONE;
}

PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *) {
    PyObject *tensor_type, *outputs;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyType_Type, &tensor_type, &outputs)) return nullptr;
    PyObject *const capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
    if (!capsule) return nullptr;
    auto *exchange = static_cast<const DLPackExchangeAPI *>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    Py_DECREF(capsule);  // the table itself is static
    if (!exchange) return nullptr;
    auto *const self = reinterpret_cast<StepCounter *>(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    self->call = run;
    self->exchange = exchange;
    self->outputs = Py_NewRef(outputs);
    self->due = HUGE_VAL;
    return reinterpret_cast<PyObject *>(self);
}

void destroy(PyObject *object) {
    StepCounter &self = *reinterpret_cast<StepCounter *>(object);
    delete self.shown;
    Py_DECREF(self.outputs);
    Py_TYPE(object)->tp_free(object);
}

PyMethodDef methods[] = {{"add", add_from_python, METH_VARARGS, nullptr}, {"show", show, METH_VARARGS, nullptr}, {}};
PyMemberDef members[] = {{"steps", T_LONGLONG, offsetof(StepCounter, steps), 0, nullptr},
                         {"added", T_LONGLONG, offsetof(StepCounter, added), 0, nullptr},
                         {"due", T_DOUBLE, offsetof(StepCounter, due), 0, nullptr},
                         {"busy", T_BOOL, offsetof(StepCounter, busy), 0, nullptr},
                         {"counting", T_BOOL, offsetof(StepCounter, counting), 0, nullptr},
                         {"counted", T_BOOL, offsetof(StepCounter, counted), 0, nullptr},
                         {}};
PyTypeObject counter_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "step_counter", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_step_counter() {
    PyTypeObject &type = counter_type;
    type.tp_name = "torch_batchsim.csrc.host.step_counter.StepCounter";
    type.tp_basicsize = sizeof(StepCounter);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(StepCounter, call);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = create;
    type.tp_dealloc = destroy;
    type.tp_methods = methods;
    type.tp_members = members;
    present_name = PyUnicode_InternFromString("present");
    tensors_name = PyUnicode_InternFromString("tensors");
    data_ptr_name = PyUnicode_InternFromString("data_ptr");
    PyObject *const made = PyModule_Create(&module);
    if (!made || PyModule_AddType(made, &type) < 0) return nullptr;
    return made;
}
