// Whether every other thread of this process is blocked.
//
// A thread is blocked when the kernel says that it sleeps (state S) and it has not run since. One
// look at all threads is not enough: A may wake B after B was looked at, and sleep when A is. So
// each is looked at in this order: how often it has been scheduled, its state, and again how often.
// If no count changed and all slept, then all slept at the moment between the last look at a state
// and the first second count: a thread that slept when looked at, and was not scheduled by its
// second count, slept in between. Nothing but a clock, a signal or this thread can wake it then.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace squall {

class Quiet {
 public:
  // For the thread that will ask. Counts are those of /proc/self/task/*/schedstat, or of the
  // context switches in .../status where the kernel keeps no schedstat.
  explicit Quiet(long self) : self_(self) {}

  ~Quiet() {
    forget();
  }

  bool check() {
    const long threads = count();
    if (threads != listed_ && !list()) {
      return false;
    }
    for (auto& thread : threads_) {
      if (!scheduled(thread, thread.before)) {
        return relist();
      }
    }
    for (auto& thread : threads_) {
      const char state = look(thread);
      if (state != 'S') {
        return state == 0 ? relist() : false;
      }
    }
    for (auto& thread : threads_) {
      unsigned long long after = 0;
      if (!scheduled(thread, after)) {
        return relist();
      }
      if (after != thread.before) {
        return false;
      }
    }
    return count() == listed_;
  }

 private:
  struct Thread {
    int stat = -1;
    int times = -1;
    bool is_schedstat = true;
    unsigned long long before = 0;
  };

  // The threads of a process are the links of its directory of tasks, less two of its own.
  static long count() {
    struct stat info {};
    return ::stat("/proc/self/task", &info) == 0 ? static_cast<long>(info.st_nlink) - 2 : -1;
  }

  bool relist() {
    listed_ = -1;
    return false;
  }

  void forget() {
    for (auto& thread : threads_) {
      ::close(thread.stat);
      ::close(thread.times);
    }
    threads_.clear();
  }

  bool list() {
    forget();
    DIR* directory = ::opendir("/proc/self/task");
    if (directory == nullptr) {
      return relist();
    }
    long found = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const long tid = std::strtol(entry->d_name, nullptr, 10);
      if (tid == 0) {
        continue;
      }
      ++found;
      if (tid == self_) {
        continue;
      }
      Thread thread;
      char path[64];
      std::snprintf(path, sizeof path, "/proc/self/task/%ld/stat", tid);
      thread.stat = ::open(path, O_RDONLY | O_CLOEXEC);
      std::snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", tid);
      thread.times = ::open(path, O_RDONLY | O_CLOEXEC);
      if (thread.times < 0) {
        thread.is_schedstat = false;
        std::snprintf(path, sizeof path, "/proc/self/task/%ld/status", tid);
        thread.times = ::open(path, O_RDONLY | O_CLOEXEC);
      }
      threads_.push_back(thread);
    }
    ::closedir(directory);
    listed_ = found;
    return count() == found;
  }

  char look(const Thread& thread) {
    const ssize_t size = ::pread(thread.stat, text_, sizeof text_ - 1, 0);
    if (size <= 0) {
      return 0;
    }
    text_[size] = 0;
    // pid (name) state ...; a name may hold anything, also parentheses.
    const char* end = std::strrchr(text_, ')');
    return end == nullptr ? static_cast<char>(0) : end[2];
  }

  bool scheduled(const Thread& thread, unsigned long long& times) {
    const ssize_t size = ::pread(thread.times, text_, sizeof text_ - 1, 0);
    if (size <= 0) {
      return false;
    }
    text_[size] = 0;
    if (thread.is_schedstat) {  // nanoseconds on a processor, nanoseconds waiting for one, times
      return std::sscanf(text_, "%*u %*u %llu", &times) == 1;
    }
    unsigned long long voluntary = 0;
    unsigned long long other = 0;
    const char* one = std::strstr(text_, "\nvoluntary_ctxt_switches:");
    const char* two = std::strstr(text_, "\nnonvoluntary_ctxt_switches:");
    if (one == nullptr || two == nullptr ||
        std::sscanf(one, "%*s %llu", &voluntary) != 1 || std::sscanf(two, "%*s %llu", &other) != 1) {
      return false;
    }
    times = voluntary + other;
    return true;
  }

  const long self_;
  long listed_ = -1;
  std::vector<Thread> threads_;
  char text_[4096];
};

} // namespace squall
