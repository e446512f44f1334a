// Stops steps: an endless system at Ctrl-C or when a watchdog's time is over, a system that crashes. A thread that waits for
// nothing else sends a signal of our own to the threads of the step, whose handler jumps out of the system (csrc/tbs/watch.h).
// Handlers of others stay in place behind ours: each signal that is not for us goes on to them, SIGINT always.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstdlib>

#include "tbs/watch.h"

namespace {

using namespace tbs::executors;

enum Cause { none = 0, interrupt = 1, timeout = 2, crash = 3 };

constexpr double grace = 0.4;  // seconds that a step may go on after Ctrl-C
constexpr double early = 0.1;  // seconds by which Ctrl-C may come before a step: Python has not looked since, then
constexpr double longest_pause = 0.2;  // seconds between looks while steps run
constexpr int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// A watch, in a list that only grows: handlers read it. One that nobody uses is taken again.
struct Entry {
    Watch watch;  // first: a Watch's address is its entry's
    std::atomic<double> limit;
    std::atomic<bool> used;
    // The monitor's own:
    unsigned seen;
    double spent, asked;  // seconds of a step; when Ctrl-C was seen in it, 0 for never
    Entry *next;
};

std::atomic<Entry *> entries{nullptr};
pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;
std::atomic<unsigned> presses{0};
sem_t wake;
std::atomic<bool> monitored{false}, asleep{false};  // the monitor: there is one; it waits until it is woken
int kick = 0;  // the signal that takes threads out of systems
struct sigaction previous[NSIG];

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

bool is_function(const struct sigaction &action) { return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN; }

struct Lock {
    Lock() { pthread_mutex_lock(&taking); }
    ~Lock() { pthread_mutex_unlock(&taking); }
};

struct Slots {
    WatchSlot *first, *last;
    WatchSlot *begin() const { return first; }
    WatchSlot *end() const { return last; }
};

Slots used_slots(Watch &watch) { return {watch.slots, watch.slots + __atomic_load_n(&watch.used, __ATOMIC_ACQUIRE)}; }

// Where the calling thread is, or null if it is not in a system.
WatchSlot *slot_of_this_thread(Watch *&watch) {
    const pthread_t self = pthread_self();
    for (Entry *entry = entries.load(); entry; entry = entry->next) {
        if (!entry->watch.running) continue;
        for (WatchSlot &slot : used_slots(entry->watch)) {
            if (slot.active && pthread_equal(slot.thread, self)) return watch = &entry->watch, &slot;
        }
    }
    return nullptr;
}

[[noreturn]] void jump(WatchSlot &slot) {
    const WatchPlace &place = slot.place;
    const int count = place.count < int(watched_worlds) ? place.count : int(watched_worlds);
    if (place.list)
        for (int i = 0; i < count; ++i) slot.listed[i] = place.list[i];  // before the frame of the list is gone
    slot.landed = 1;
    siglongjmp(slot.landing, 1);
}

void on_kick(int, siginfo_t *, void *) {
    const int error = errno;
    Watch *watch = nullptr;
    WatchSlot *const slot = slot_of_this_thread(watch);
    if (slot && watch->stop) jump(*slot);
    errno = error;
}

void pass_on(int signal, siginfo_t *info, void *context) {
    const struct sigaction &before = previous[signal];
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else {
        before.sa_handler(signal);
    }
}

void on_interrupt(int signal, siginfo_t *info, void *context) {
    static std::atomic<pthread_t> inside{0};  // another one's handler may hand it back to us
    if (inside.load() == pthread_self()) return;
    inside = pthread_self();
    const int error = errno;
    presses.fetch_add(1);
    sem_post(&wake);
    if (is_function(previous[signal])) pass_on(signal, info, context);
    errno = error;
    inside = pthread_t{0};
}

void on_crash(int signal, siginfo_t *info, void *context) {
    if (info->si_code > 0) {  // by what the thread has done, not sent by anybody
        Watch *watch = nullptr;
        if (WatchSlot *const slot = slot_of_this_thread(watch)) {
            slot->signal = signal;
            slot->address = info->si_addr;
            watch->stop = crash;
            jump(*slot);
        }
    }
    if (is_function(previous[signal])) return pass_on(signal, info, context);
    ::signal(signal, SIG_DFL);  // as if we were not here: it happens again, or is sent again
    if (info->si_code <= 0) raise(signal);
}

void handle(int signal, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction present;
    sigaction(signal, nullptr, &present);
    if ((present.sa_flags & SA_SIGINFO) && present.sa_sigaction == handler) return;
    if (signal == SIGINT && !is_function(present)) return;  // ignored, or the end of the process: as the user wants it
    previous[signal] = present;
    struct sigaction own = {};
    own.sa_sigaction = handler;
    own.sa_flags = SA_SIGINFO | SA_NODEFER | (signal == SIGINT ? present.sa_flags & (SA_RESTART | SA_ONSTACK) : SA_ONSTACK);
    sigemptyset(&own.sa_mask);
    sigaction(signal, &own, nullptr);
}

// Whether this is the first call in a tick of the kernel's clock (1 to 10 ms).
bool is_first_in_tick() {
    static std::atomic<long> last{-1};
    timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);  // 6 ns, where to ask who handles a signal takes 250
    const long tick = time.tv_sec * 1000000000 + time.tv_nsec;
    if (last.load(std::memory_order_relaxed) == tick) return false;
    last.store(tick, std::memory_order_relaxed);
    return true;
}

// Before each step. Python's signal.signal() puts its own handler in place of ours: a step looks once in a tick, and the
// monitor while steps run, for a step that begins in the tick in which a handler was set.
void enter(Watch &watch) {
    const bool first = is_first_in_tick();
    if (first) handle(SIGINT, on_interrupt);
    watch.stop = none;
    for (WatchSlot &slot : used_slots(watch)) {
        slot.landed = 0;
        slot.signal = 0;
    }
    watch.steps = watch.steps + 1;
    watch.running = 1;
    if (first && asleep.exchange(false)) sem_post(&wake);
}

// A stack for handlers, so that they can report a system that recurses without end.
struct SignalStack {
    void *memory = MAP_FAILED;
    ~SignalStack() {
        leave_slots();
        if (memory == MAP_FAILED) return;
        stack_t off = {};
        off.ss_flags = SS_DISABLE;
        sigaltstack(&off, nullptr);
        munmap(memory, size);
    }
    // A later thread may have the same id, and needs a stack of its own.
    static void leave_slots() {
        for (Entry *entry = entries.load(); entry; entry = entry->next) {
            for (WatchSlot &slot : used_slots(entry->watch)) {
                pthread_t self = pthread_self();
                __atomic_compare_exchange_n(&slot.thread, &self, pthread_t{}, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
            }
        }
    }
    static constexpr std::size_t size = 1 << 17;
};

void adopt(Watch &watch, unsigned thread) {
    static thread_local SignalStack own;
    stack_t present;
    if (sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE)) {
        own.memory = mmap(nullptr, SignalStack::size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack_t stack = {};
        stack.ss_sp = own.memory;
        stack.ss_size = SignalStack::size;
        if (own.memory != MAP_FAILED) sigaltstack(&stack, nullptr);
    }
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, kick);
    pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
    watch.slots[thread].thread = pthread_self();
    unsigned seen = __atomic_load_n(&watch.used, __ATOMIC_SEQ_CST);
    while (seen <= thread && !__atomic_compare_exchange_n(&watch.used, &seen, thread + 1, true, __ATOMIC_SEQ_CST,
                                                          __ATOMIC_SEQ_CST)) {}
}

void stop(Entry &entry, int cause) {
    if (entry.watch.stop == none) entry.watch.stop = cause;
    for (WatchSlot &slot : used_slots(entry.watch)) {
        if (slot.active) pthread_kill(slot.thread, kick);
    }
}

void *monitor(void *) {
    unsigned pressed = presses.load();
    double looked = now(), pressed_at = -early;
    double pause = -1;  // seconds until it looks again; for ever
    for (;;) {
        if (pause < 0) {
            asleep = true;
            while (sem_wait(&wake) && errno == EINTR) {}
        } else {
            timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            const long nanoseconds = until.tv_nsec + long(pause * 1e9);
            until.tv_sec += nanoseconds / 1000000000;
            until.tv_nsec = nanoseconds % 1000000000;
            sem_timedwait(&wake, &until);
        }
        const double time = now();
        // Of a process that was stopped (Ctrl-Z) a step's time is not what a clock says.
        const double passed = time - looked < 2 * longest_pause ? time - looked : 2 * longest_pause;
        looked = time;
        if (const unsigned present = presses.load(); present != pressed) {
            pressed = present;
            pressed_at = time;
        }
        const bool interrupted = time - pressed_at < early;
        pause = -1;
        const auto look_again = [&](double seconds) { pause = pause < 0 || seconds < pause ? seconds : pause; };
        if (interrupted) look_again(0.02);
        bool stepping = false;
        for (Entry *entry = entries.load(); entry; entry = entry->next) {
            if (!entry->used) continue;
            const double limit = entry->limit;
            if (entry->watch.running || entry->seen != entry->watch.steps) stepping = true;
            if (entry->seen != entry->watch.steps) {
                entry->seen = entry->watch.steps;
                entry->spent = 0;
                entry->asked = 0;
            } else {
                entry->spent += passed;
            }
            if (limit > 0) look_again(limit < 8 * longest_pause ? limit / 8 : longest_pause);
            if (!entry->watch.running) continue;
            if (interrupted && entry->asked == 0) entry->asked = time;
            if (entry->asked > 0) {
                look_again(0.02);
                if (time - entry->asked > grace) stop(*entry, interrupt);
            }
            if (limit > 0 && entry->spent > limit) stop(*entry, timeout);
        }
        if (stepping) {
            handle(SIGINT, on_interrupt);
            look_again(longest_pause);
        }
    }
    return nullptr;
}

int free_signal() {
    for (int signal = SIGRTMAX - 2; signal > SIGRTMIN; --signal) {
        struct sigaction present;
        if (sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_DFL) return signal;
    }
    return SIGURG;
}

bool begin() {
    if (!kick) {
        kick = free_signal();
        struct sigaction own = {};
        own.sa_sigaction = on_kick;
        own.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK | SA_RESTART;
        sigemptyset(&own.sa_mask);
        sigaction(kick, &own, nullptr);
    }
    if (!dlsym(RTLD_DEFAULT, "__asan_init"))  // a sanitizer reports crashes itself
        for (int signal : crashes) handle(signal, on_crash);
    if (monitored.exchange(true)) return true;
    sem_init(&wake, 0, 0);
    asleep = false;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int failed = pthread_create(&thread, nullptr, monitor, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failed) return monitored = false;
    pthread_detach(thread);
    return true;
}

Entry *entry_of(PyObject *address) { return static_cast<Entry *>(PyLong_AsVoidPtr(address)); }

// take() -> address: a watch for a simulator.
PyObject *take(PyObject *, PyObject *) {
    const Lock lock;
    if (!begin()) return PyErr_Format(PyExc_OSError, "no thread for the watch over steps");
    Entry *entry = entries.load();
    while (entry && entry->used) entry = entry->next;
    if (!entry) {
        void *const memory = std::calloc(1, sizeof(Entry));  // of which only what is used is ever touched
        if (!memory) return PyErr_NoMemory();
        entry = static_cast<Entry *>(memory);
        entry->next = entries.load();
        entry->watch.enter = enter;
        entry->watch.adopt = adopt;
        entries = entry;
    }
    entry->limit = 0;
    entry->used = true;
    return PyLong_FromVoidPtr(entry);
}

PyObject *give_back(PyObject *, PyObject *address) {
    Entry *const entry = entry_of(address);
    if (!entry) return nullptr;
    entry->limit = 0;
    entry->used = false;
    Py_RETURN_NONE;
}

// again(): signals and the monitor, where others have changed them or a fork has ended it.
PyObject *again(PyObject *, PyObject *) {
    const Lock lock;
    begin();
    Py_RETURN_NONE;
}

// set_limit(address, seconds): 0 for none.
PyObject *set_limit(PyObject *, PyObject *arguments) {
    PyObject *address;
    double seconds;
    if (!PyArg_ParseTuple(arguments, "Od", &address, &seconds)) return nullptr;
    Entry *const entry = entry_of(address);
    if (!entry) return nullptr;
    entry->limit = seconds;
    sem_post(&wake);
    Py_RETURN_NONE;
}

// report(address) -> (cause, [(task, repetition, first, last, world, listed or None, signal, address), ...])
PyObject *report(PyObject *, PyObject *address) {
    Entry *const entry = entry_of(address);
    if (!entry) return nullptr;
    PyObject *const places = PyList_New(0);
    if (!places) return nullptr;
    for (const WatchSlot &slot : used_slots(entry->watch)) {
        if (!slot.landed) continue;
        const WatchPlace &place = slot.place;
        PyObject *listed = Py_NewRef(Py_None);
        if (place.list) {
            Py_DECREF(listed);
            const int count = place.count < int(watched_worlds) ? place.count : int(watched_worlds);
            listed = PyList_New(count);
            for (int i = 0; listed && i < count; ++i) PyList_SET_ITEM(listed, i, PyLong_FromLong(slot.listed[i]));
        }
        PyObject *const item = listed ? Py_BuildValue("(IIiiiNiK)", place.task, place.repetition, place.first, place.last,
                                                      place.world, listed, slot.signal,
                                                      (unsigned long long)(std::uintptr_t)slot.address)
                                      : nullptr;
        if (!item || PyList_Append(places, item)) {
            Py_XDECREF(item);
            Py_DECREF(places);
            return nullptr;
        }
        Py_DECREF(item);
    }
    return Py_BuildValue("(iN)", entry->watch.stop, places);
}

// forget(address): that the last step was stopped.
PyObject *forget(PyObject *, PyObject *address) {
    Entry *const entry = entry_of(address);
    if (!entry) return nullptr;
    entry->watch.stop = none;
    Py_RETURN_NONE;
}

void in_child() {
    monitored = false;  // the monitor stayed with the parent
    for (Entry *entry = entries.load(); entry; entry = entry->next) {
        for (WatchSlot &slot : used_slots(entry->watch)) slot.active = 0;
        entry->watch.running = 0;
    }
}

PyMethodDef functions[] = {
    {"take", take, METH_NOARGS, nullptr},           {"give_back", give_back, METH_O, nullptr},
    {"again", again, METH_NOARGS, nullptr},         {"set_limit", set_limit, METH_VARARGS, nullptr},
    {"report", report, METH_O, nullptr},            {"forget", forget, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "interrupts", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_interrupts() {
    if (pthread_atfork(nullptr, nullptr, in_child)) return PyErr_NoMemory();
    return PyModule_Create(&module);
}
