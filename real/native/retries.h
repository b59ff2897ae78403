// The agent's retries in virtual time.
//
// RpcAgent keeps what it will send again in a map by the real time of the next attempt, with a
// thread that sleeps until then. Nothing of that is changed; but an entry's time is: to never, as
// soon as it appears, and to at once, when the time has come by the coordinator's clock.
#pragma once

#include <torch/csrc/distributed/rpc/rpc_agent.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "link.h"

namespace squall {

namespace access {

using torch::distributed::rpc::RpcAgent;
using Entry = std::shared_ptr<torch::distributed::rpc::RpcRetryInfo>;
using Time = std::chrono::steady_clock::time_point;

// An explicit instantiation may name private members, and that is how this one is reached.
template <typename Tag, typename Tag::type Member>
struct Open {
  friend typename Tag::type open(Tag) {
    return Member;
  }
};
struct Map {
  using type = std::map<
      torch::distributed::rpc::steady_clock_time_point,
      std::unordered_set<Entry>> RpcAgent::*;
  friend type open(Map);
};
struct Wake {
  using type = std::condition_variable RpcAgent::*;
  friend type open(Wake);
};
struct Mutex {
  using type = std::mutex RpcAgent::*;
  friend type open(Mutex);
};
template struct Open<Map, &RpcAgent::rpcRetryMap_>;
template struct Open<Wake, &RpcAgent::rpcRetryMapCV_>;
template struct Open<Mutex, &RpcAgent::rpcRetryMutex_>;

} // namespace access

class Retries {
 public:
  // A message goes out, for the first time or again, at `now` seconds of virtual time.
  void sent(const torch::distributed::rpc::Message* message, double now) {
    std::lock_guard<std::mutex> guard(mutex_);
    sent_[message] = {now, count_++};
  }

  // The agent was shut down: the thread that sends again has ended, and what is left is never sent.
  void over() {
    over_ = true;
  }

  // When all is quiet: takes note of new entries. True if one of them is due.
  bool look(access::RpcAgent& agent, Link& link) {
    return move(agent, link, false);
  }

  // The coordinator says that something may be due.
  void fire(access::RpcAgent& agent, Link& link) {
    move(agent, link, true);
  }

 private:
  struct Sent {
    double at;
    uint64_t number;
  };
  struct Due {
    access::Entry entry;
    double at;
    uint64_t number;
  };

  bool move(access::RpcAgent& agent, Link& link, bool all) {
    using torch::distributed::rpc::steady_clock_time_point;
    if (over_) {
      return false;
    }
    auto& map = agent.*open(access::Map());
    std::vector<Due> due;
    {
      std::lock_guard<std::mutex> guard(agent.*open(access::Mutex()));
      const auto never = std::chrono::steady_clock::now() + std::chrono::hours(24 * 365);
      const auto soon = std::chrono::time_point_cast<std::chrono::milliseconds>(
          never - std::chrono::hours(24));
      std::vector<access::Entry> found;
      for (auto at = map.begin(); at != map.end();) {
        if (!all && at->first > soon) {
          break;
        }
        found.insert(found.end(), at->second.begin(), at->second.end());
        at = map.erase(at);
      }
      if (found.empty()) {
        return false;
      }
      const double now = link.now();
      std::vector<Due> later;
      for (auto& entry : found) {
        const Due one = when(entry);
        (one.at <= now + 1e-9 ? due : later).push_back(one);
      }
      const auto order = [](const Due& a, const Due& b) { return a.number < b.number; };
      std::sort(due.begin(), due.end(), order);
      std::sort(later.begin(), later.end(), order);
      for (const auto& one : later) {
        map[std::chrono::time_point_cast<std::chrono::milliseconds>(
                never + std::chrono::milliseconds(one.number))]
            .insert(one.entry);
        link.say('T', Writer().put<double>(one.at).bytes);
      }
      auto at = steady_clock_time_point{};
      for (const auto& one : due) {
        at += std::chrono::milliseconds(1);
        map[at].insert(one.entry);
      }
    }
    if (!due.empty()) {
      (agent.*open(access::Wake())).notify_one();
    }
    return !due.empty();
  }

  // An attempt is made so long after the one before it was sent, by that one's number
  // (RpcAgent::computeNewRpcRetryTime; the first two are the same).
  Due when(const access::Entry& entry) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = sent_.find(entry->message_.get());
    const Sent last = found == sent_.end() ? Sent{0.0, 0} : found->second;
    const auto base = static_cast<double>(entry->options_.rpcRetryDuration.count()) / 1000;
    const int step = std::max(0, entry->retryCount_ - 1);
    const double delay =
        std::floor(base * std::pow(entry->options_.retryBackoff, step) * 1000) / 1000;
    return {entry, last.at + delay, last.number};
  }

  std::atomic<bool> over_{false};
  std::mutex mutex_;
  uint64_t count_ = 0;
  std::unordered_map<const void*, Sent> sent_;
};

} // namespace squall
