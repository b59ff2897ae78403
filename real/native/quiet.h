// Whether every other thread of this process is blocked, and by itself nothing will wake one.
//
// Each thread is read once: its state, which must be S, and `/proc/self/task/N/syscall`. The kernel
// answers the latter with "running" unless the thread was seen off the processor and off the run
// queue (wait_task_inactive), which the state alone does not say: a thread that is about to sleep has
// state S while it still runs, and may find that there is no need to. One after the other is no
// proof either, since A may wake B after B was read, and sleep when A is. So the switches from a
// processor of all threads are counted before and after (getrusage), and must be the same.
//
// Why that is enough. Let none be counted, and every thread have been found blocked, each at its
// moment. Say some thread was woken after its moment, and take the first that was. Who woke it ran
// then; its own moment must come later, or it would have been woken before. But at that moment it is
// found blocked, so it has left the processor meanwhile, and was counted. Hence nobody was woken, and at
// the last moment all are blocked. No clock is part of it: that of a thread may stand still while it
// runs, where a hypervisor takes the processor away.
//
// What remains is what wakes a thread from outside. A wait for the interpreter's lock, of 5 ms, or
// another short one, and a sleep end by themselves; and while a child process runs, so may every wait
// that is not one of threads for each other. A process is not quiet before, unless that takes too long.
//
// Most looks find somebody at work, as a rule the one who was at work last: it is read first.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace squall {

class Quiet {
 public:
  // For the thread that will ask, by its id.
  explicit Quiet(long self) : self_(self) {}

  ~Quiet() {
    forget();
  }

  bool check() {
    if (listed_ < 0 && !list()) {
      return false;
    }
    if (suspect_ < threads_.size() && look(threads_[suspect_], false) == Found::kAtWork) {
      return again();
    }
    // Each pair of readings is in the order in which a switch of this thread itself between them
    // can only count as one too many.
    const long all_before = switches(RUSAGE_SELF);
    const long others_before = all_before - switches(RUSAGE_THREAD);
    // Asked first: one that ends in the middle wakes whom was found blocked.
    const bool child = child_runs();
    Found most = Found::kBlocked;
    for (size_t i = 0; i < threads_.size(); ++i) {
      const Found found = look(threads_[i], child);
      if (found == Found::kAtWork) {
        suspect_ = i;
        return again();
      }
      most = std::max(most, found);
    }
    const long mine = switches(RUSAGE_THREAD);
    if (switches(RUSAGE_SELF) - mine != others_before) {
      return again();
    }
    if (count() != listed_) {
      listed_ = -1;
      return again();
    }
    if (most == Found::kBlocked || patience_is_over(most)) {
      waits_since_s_ = 0.0;
      return true;
    }
    return false;
  }

 private:
  enum class Found { kBlocked, kShortly, kForChild, kAtWork };

  struct Thread {
    int stat = -1;
    int syscall = -1;
  };

  // Seconds: of a wait that is short; and those after which short waits, one after the other, and
  // one for a child are taken for good, since whoever they wait for is blocked.
  static constexpr double kShortS = 0.02;
  static constexpr double kPatienceS = 2.0;
  static constexpr double kPatienceForChildS = 20.0;

  // The threads of a process are the links of its directory of tasks, less two of its own.
  static long count() {
    struct stat info {};
    return ::stat("/proc/self/task", &info) == 0 ? static_cast<long>(info.st_nlink) - 2 : -1;
  }

  // How often threads were switched from a processor, those that have ended included.
  static long switches(int whose) {
    rusage usage{};
    ::getrusage(whose, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
  }

  static double now_s(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return seconds(time);
  }

  static double seconds(const timespec& time) {
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  bool again() {
    waits_since_s_ = 0.0;
    return false;
  }

  bool patience_is_over(Found what) {
    const double now = now_s(CLOCK_MONOTONIC);
    if (waits_since_s_ == 0.0) {
      waits_since_s_ = now;
    }
    return now - waits_since_s_ > (what == Found::kForChild ? kPatienceForChildS : kPatienceS);
  }

  void forget() {
    for (auto& thread : threads_) {
      ::close(thread.stat);
      ::close(thread.syscall);
    }
    threads_.clear();
  }

  bool list() {
    forget();
    DIR* directory = ::opendir("/proc/self/task");
    if (directory == nullptr) {
      return false;
    }
    long found = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const long tid = std::strtol(entry->d_name, nullptr, 10);
      if (tid == 0) {
        continue;
      }
      ++found;
      if (tid != self_) {
        threads_.push_back({file(tid, "stat"), file(tid, "syscall")});
      }
    }
    ::closedir(directory);
    listed_ = found;
    suspect_ = threads_.size();
    if (count() != found) {
      listed_ = -1;
      return again();
    }
    return true;
  }

  static int file(long tid, const char* name) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%ld/%s", tid, name);
    return ::open(path, O_RDONLY | O_CLOEXEC);
  }

  // False for a thread that has ended.
  bool read(int fd) {
    const ssize_t size = ::pread(fd, text_, sizeof text_ - 1, 0);
    if (size <= 0) {
      listed_ = -1;
      return false;
    }
    text_[size] = 0;
    return true;
  }

  char state(const Thread& thread) {
    if (!read(thread.stat)) {
      return 0;
    }
    // pid (name) state ...; a name may hold anything, also parentheses.
    const char* end = std::strrchr(text_, ')');
    return end == nullptr ? static_cast<char>(0) : end[2];
  }

  Found look(const Thread& thread, bool child) {
    if (!read(thread.syscall)) {
      return Found::kAtWork;
    }
    // number and six arguments; or "running"
    char* at = nullptr;
    const long number = std::strtol(text_, &at, 10);
    if (at == text_) {
      return Found::kAtWork;
    }
    unsigned long arguments[6] = {};
    for (auto& argument : arguments) {
      argument = std::strtoul(at, &at, 16);
    }
    if (state(thread) != 'S') {  // of the disk, or stopped
      return Found::kAtWork;
    }
    switch (number) {
      case SYS_futex:
        return arguments[3] != 0 && ends_shortly(arguments) ? Found::kShortly : Found::kBlocked;
      case SYS_clock_nanosleep:
#ifdef SYS_nanosleep
      case SYS_nanosleep:
#endif
        return Found::kShortly;
      default:
        return child ? Found::kForChild : Found::kBlocked;
    }
  }

  // A wait on a futex with a time limit.
  static bool ends_shortly(const unsigned long (&arguments)[6]) {
    const unsigned long operation = arguments[1] & FUTEX_CMD_MASK;
    if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) {
      return false;
    }
    // Its thread may go on just now, and this be no memory any more.
    timespec limit{};
    const iovec here{&limit, sizeof limit};
    const iovec there{reinterpret_cast<void*>(arguments[3]), sizeof limit};
    if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != sizeof limit) {
      return true;
    }
    if (operation == FUTEX_WAIT) {
      return seconds(limit) < kShortS;
    }
    const bool real = (arguments[1] & FUTEX_CLOCK_REALTIME) != 0;
    return seconds(limit) - now_s(real ? CLOCK_REALTIME : CLOCK_MONOTONIC) < kShortS;
  }

  static bool child_runs() {
    siginfo_t info{};
    return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }

  const long self_;
  long listed_ = -1;
  // The place of who was found at work last; nobody's if it is past the end.
  size_t suspect_ = 0;
  double waits_since_s_ = 0.0;
  std::vector<Thread> threads_;
  char text_[4096];
};

} // namespace squall
