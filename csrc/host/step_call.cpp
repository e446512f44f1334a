// The step of a vector environment with ordinary actions, in one call from Python: looks at the tensor, then runs the
// environment's library. Between the operations of a policy, which have emptied the caches, each line of Python costs ten
// times as much as in a tight loop: 55 microseconds of a step of CartPole were Python (docs/performance.md).
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <ATen/dlpack.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using ActAndStep = std::int64_t (*)(void *executor, void *context, const void *outputs, const void *actions, int type,
                                    void *stream);

bool forked = false;  // the child of a fork has its own number of threads: see torch_batchsim/base/openmp.py

struct ElementType {
    int code, bits;  // DLPack's
    int number;      // the engine's
};

struct Expected {
    std::vector<std::int64_t> shape;
    std::vector<ElementType> types;
    int device_type, device_index;
};

struct StepCall {
    PyObject_HEAD
    vectorcallfunc call;
    PyTypeObject *tensor_type;  // torch.Tensor, which lives as long as the process
    const DLPackExchangeAPI *exchange;
    ActAndStep function;
    void *executor, *context;
    const volatile std::int32_t *flags;  // [2]: pending faults, tables that are about to overflow
    const std::int32_t *team;            // torch's threads as the context has them; null on CUDA
    int (*get_num_threads)();            // at::get_num_threads; by address, because linking with torch takes half a second
    const std::uint64_t *stream;         // the one on which all memory is known to be used; null on CPU
    PyObject *token;                     // a list that is empty while somebody uses the simulator
    PyObject *lent;                      // a list of tensors that a caller may let torch move, each with its address
    PyObject *closer_look;               // StepResult.closer_look: nothing has happened
    Expected *expected;
};

bool is_contiguous(const DLTensor &tensor) {
    std::int64_t stride = 1;
    for (int i = tensor.ndim - 1; i >= 0; --i) {
        if (tensor.strides && tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
        stride *= tensor.shape[i];
    }
    return true;
}

// The engine's number for the type of such actions, -1 if they need a closer look.
int plain_type(const Expected &expected, const DLTensor &tensor) {
    if (tensor.device.device_type != expected.device_type || tensor.device.device_id != expected.device_index) return -1;
    if (tensor.ndim != int(expected.shape.size()) || tensor.dtype.lanes != 1) return -1;
    for (int i = 0; i < tensor.ndim; ++i)
        if (tensor.shape[i] != expected.shape[i]) return -1;
    if (!is_contiguous(tensor)) return -1;
    if (!tensor.data && tensor.ndim && tensor.shape[0]) return -1;  // of torch.func.functionalize, without memory
    for (const ElementType &type : expected.types)
        if (tensor.dtype.code == type.code && tensor.dtype.bits == type.bits) return type.number;
    return -1;
}

// Where the memory of a tensor lies; null where that needs a closer look.
const void *memory_of(const StepCall &self, PyObject *object) {
    DLTensor tensor;
    if (!self.exchange->dltensor_from_py_object_no_sync(object, &tensor))
        return static_cast<const char *>(tensor.data) + tensor.byte_offset;
    PyErr_Clear();
    return nullptr;
}

// Whether the tensors of outputs still are where the pointers say: torch moves those that another process shall see.
bool in_place(const StepCall &self, PyObject *tensors, const void *pointers) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i) {
        PyObject *const object = PyTuple_GET_ITEM(tensors, i);
        if (object != Py_None && memory_of(self, object) != static_cast<const void *const *>(pointers)[i]) return false;
    }
    return true;
}

bool lent_in_place(const StepCall &self) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self.lent); ++i) {
        PyObject *const entry = PyList_GET_ITEM(self.lent, i);
        if (memory_of(self, PyTuple_GET_ITEM(entry, 0)) != PyLong_AsVoidPtr(PyTuple_GET_ITEM(entry, 1))) return false;
    }
    return true;
}

// A tensor that callers may hold, as `_PACKED` in torch_batchsim/memory/outputs.py, which keeps the objects alive. The
// references to a tensor or storage of torch are the first member behind the table of virtual functions of
// c10::intrusive_ptr_target (torch_batchsim/run/step_call.py compares them with torch's own functions).
struct Watched {
    PyObject *tensor;
    Py_ssize_t references;  // the engine's own to the object
    const volatile std::uint32_t *in_torch, *storage;
    PyObject *owners;  // a list: owners of the storage, its object, references to that
};

// Whether a caller holds one of the outputs that lie where the step would write, as `_held` in
// torch_batchsim/memory/outputs.py.
bool is_held(PyObject *packed) {
    const auto *const watched = reinterpret_cast<const Watched *>(PyBytes_AS_STRING(packed));
    const std::size_t count = std::size_t(PyBytes_GET_SIZE(packed)) / sizeof(Watched);
    for (std::size_t i = 0; i < count; ++i) {
        const Watched &one = watched[i];
        if (Py_REFCNT(one.tensor) > one.references || one.in_torch[2] > 1 ||
            one.storage[2] > PyLong_AsSize_t(PyList_GET_ITEM(one.owners, 0)) ||
            Py_REFCNT(PyList_GET_ITEM(one.owners, 1)) > PyLong_AsSsize_t(PyList_GET_ITEM(one.owners, 2)))
            return true;
    }
    return false;
}

PyObject *run(PyObject *object, PyObject *const *arguments, std::size_t count, PyObject *keywords) {
    StepCall &self = *reinterpret_cast<StepCall *>(object);
    if (PyVectorcall_NARGS(count) != 4 || keywords || !PyTuple_Check(arguments[2]) || !PyBytes_Check(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "a StepCall takes actions, the address of outputs, their tensors and the watched ones");
        return nullptr;
    }
    if (Py_TYPE(arguments[0]) != self.tensor_type || forked) return Py_NewRef(self.closer_look);
    if (self.flags[0] || self.flags[1]) return Py_NewRef(self.closer_look);
    if (self.team && *self.team != self.get_num_threads()) return Py_NewRef(self.closer_look);
    DLTensor actions;
    if (self.exchange->dltensor_from_py_object_no_sync(arguments[0], &actions)) {
        PyErr_Clear();  // the check in Python raises the error
        return Py_NewRef(self.closer_look);
    }
    const int type = plain_type(*self.expected, actions);
    if (type < 0) return Py_NewRef(self.closer_look);
    void *stream = nullptr;
    if (actions.device.device_type == kDLCUDA &&
        self.exchange->current_work_stream(kDLCUDA, actions.device.device_id, &stream))
        return nullptr;
    if (self.stream && *self.stream != reinterpret_cast<std::uintptr_t>(stream)) return Py_NewRef(self.closer_look);
    const void *const outputs = PyLong_AsVoidPtr(arguments[1]);
    if (!outputs && PyErr_Occurred()) return nullptr;
    if (!in_place(self, arguments[2], outputs) || !lent_in_place(self)) return Py_NewRef(self.closer_look);
    if (is_held(arguments[3])) return Py_NewRef(self.closer_look);
    const void *const data = static_cast<const char *>(actions.data) + actions.byte_offset;
    if (PyList_GET_SIZE(self.token) == 0) return Py_NewRef(self.closer_look);  // another thread is in a step
    if (PyList_SetSlice(self.token, 0, 1, nullptr)) return nullptr;
    std::int64_t result;
    Py_BEGIN_ALLOW_THREADS
    result = self.function(self.executor, self.context, outputs, data, type, stream);
    Py_END_ALLOW_THREADS
    if (PyList_Append(self.token, Py_None)) return nullptr;
    return PyLong_FromLongLong(result);
}

PyObject *create(PyTypeObject *type, PyObject *arguments, PyObject *) {
    PyObject *tensor_type, *token, *lent, *shape, *types;
    unsigned long long function, executor, context, flags, team, get_num_threads, stream;
    int device_type, device_index;
    PyObject *closer_look;
    if (!PyArg_ParseTuple(arguments, "O!KKKKKKKO!O!O!O!iiO!", &PyType_Type, &tensor_type, &function, &executor, &context, &flags,
                          &team, &get_num_threads, &stream, &PyList_Type, &token, &PyList_Type, &lent, &PyTuple_Type, &shape,
                          &PyTuple_Type, &types, &device_type, &device_index, &PyLong_Type, &closer_look))
        return nullptr;
    PyObject *const capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
    if (!capsule) return nullptr;
    auto *exchange = static_cast<const DLPackExchangeAPI *>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    Py_DECREF(capsule);  // the table itself is static
    if (!exchange) return nullptr;
    if (exchange->header.version.major != DLPACK_MAJOR_VERSION || !exchange->dltensor_from_py_object_no_sync ||
        !exchange->current_work_stream) {
        PyErr_SetString(PyExc_ImportError, "torch exchanges tensors by another version of DLPack than its headers have");
        return nullptr;
    }
    Expected expected{{}, {}, device_type, device_index};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i)
        expected.shape.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
        ElementType element;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(types, i), "iii", &element.code, &element.bits, &element.number))
            return nullptr;
        expected.types.push_back(element);
    }
    if (PyErr_Occurred()) return nullptr;
    auto *self = reinterpret_cast<StepCall *>(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    self->call = run;
    self->tensor_type = reinterpret_cast<PyTypeObject *>(tensor_type);
    self->exchange = exchange;
    self->function = reinterpret_cast<ActAndStep>(function);
    self->executor = reinterpret_cast<void *>(executor);
    self->context = reinterpret_cast<void *>(context);
    self->flags = reinterpret_cast<const volatile std::int32_t *>(flags);
    self->team = reinterpret_cast<const std::int32_t *>(team);
    self->get_num_threads = reinterpret_cast<int (*)()>(get_num_threads);
    self->stream = reinterpret_cast<const std::uint64_t *>(stream);
    self->token = Py_NewRef(token);
    self->lent = Py_NewRef(lent);
    self->closer_look = Py_NewRef(closer_look);
    self->expected = new Expected(std::move(expected));
    return reinterpret_cast<PyObject *>(self);
}

void destroy(PyObject *object) {
    delete reinterpret_cast<StepCall *>(object)->expected;
    Py_DECREF(reinterpret_cast<StepCall *>(object)->token);
    Py_DECREF(reinterpret_cast<StepCall *>(object)->lent);
    Py_DECREF(reinterpret_cast<StepCall *>(object)->closer_look);
    Py_TYPE(object)->tp_free(object);
}

PyObject *is_held_from_python(PyObject *, PyObject *packed) {
    if (PyBytes_Check(packed)) return PyBool_FromLong(is_held(packed));
    PyErr_SetString(PyExc_TypeError, "is_held takes the packed bytes of watched tensors");
    return nullptr;
}

PyMethodDef functions[] = {{"is_held", is_held_from_python, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyTypeObject step_call_type = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "step_call", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_step_call() {
    PyTypeObject &type = step_call_type;
    type.tp_name = "torch_batchsim.csrc.host.step_call.StepCall";
    type.tp_basicsize = sizeof(StepCall);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    type.tp_vectorcall_offset = offsetof(StepCall, call);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = create;
    type.tp_dealloc = destroy;
    PyObject *const made = PyModule_Create(&module);
    if (!made || PyModule_AddType(made, &type) < 0) return nullptr;
    if (pthread_atfork(nullptr, nullptr, [] { forked = true; })) return PyErr_NoMemory();
    return made;
}
