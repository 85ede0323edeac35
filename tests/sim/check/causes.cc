#include "tests/sim/check/causes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::sim {
namespace {

// Wait of a placement, and of a coordinator for the daemons that were there before.
constexpr absl::Duration kPlacePatience = absl::Seconds(10);
constexpr absl::Duration kRestartPatience = absl::Seconds(30);

}  // namespace

void Causes::OnRestart(std::set<uint32_t> starting, bool remembers) {
  starting_.merge(starting);
  restarted_ = true;
  remembers_ = remembers;
  met_.clear();
}

bool Causes::ExplainNodeError(uint32_t job, const std::string& reason) const {
  if (corrupted_.count(job) > 0 && absl::StrContains(reason, "MALFORMED")) return true;
  if (homes_.count(job) > 0) return false;
  return std::any_of(lost_.begin(), lost_.end(), [&](const std::string& daemon) {
    if (!absl::StartsWith(daemon, "server ") || placed_.count({job, daemon}) == 0) return false;
    const std::string name = daemon.substr(7);
    return absl::StrContains(reason, absl::StrFormat("tcp://%s:", name)) &&
           absl::StrContains(reason, " is not here");
  });
}

bool Causes::Explain(uint32_t job, proto::JobState state, const std::string& reason,
                     absl::Time now) const {
  if (state == proto::FINISHED) return true;
  if (state == proto::CANCELLED) {
    return cancelled_.count(job) > 0 && reason == "cancelled by the user";
  }
  if (reason == "the coordinator was restarted while the job was starting") {
    return starting_.count(job) > 0;
  }
  if (absl::StartsWith(reason, "can never fit: ")) return MayNotFit(now);
  return ExplainNodeError(job, reason) || NamesLost(job, reason) || NamesDeaths(job, reason) ||
         MayLackServers(job, reason, now) || MayLackHosts(reason) || NamesDropped(job, reason);
}

bool Causes::MayDrop(uint32_t job, uint32_t node, const std::string& worker) const {
  return unheard_.count({job, node}) > 0 || lost_.count(absl::StrCat("worker ", worker)) > 0;
}

size_t Causes::CountGone(uint32_t job) const {
  const auto unheard = std::count_if(unheard_.begin(), unheard_.end(),
                                     [job](const auto& one) { return one.first == job; });
  const auto lost = std::count_if(placed_.begin(), placed_.end(), [&](const auto& one) {
    return one.first == job && lost_.count(one.second) > 0;
  });
  return static_cast<size_t>(unheard + lost);
}

bool Causes::NamesDropped(uint32_t job, const std::string& reason) const {
  const bool does_not_train = absl::EndsWith(reason, " does not train yet") ||
                              absl::EndsWith(reason, "its first weights are not there yet");
  return CountGone(job) > 0 &&
         (absl::StrContains(reason, " would be left, and the job goes on with no less than ") ||
          (absl::StrContains(reason, " does not go on: ") && does_not_train) ||
          absl::EndsWith(reason, "; all other nodes have finished"));
}

bool Causes::NamesDeaths(uint32_t job, const std::string& reason) const {
  const auto deaths = node_deaths_.find(job);
  if (deaths == node_deaths_.end()) return false;
  // Before it trains, there is nothing to restart it from.
  if (absl::EndsWith(reason, ": killed")) return true;
  // A damaged frame may have ended it before.
  const bool died_twice = deaths->second > 1 || corrupted_.count(job) > 0;
  return died_twice && absl::StrContains(reason, ": killed; it was begun again before");
}

void Causes::OnHeld(const std::string& server, const std::set<uint32_t>& jobs) {
  for (const auto& [job, homes] : homes_) {
    if (jobs.count(job) > 0) continue;
    for (uint32_t shard = 0; shard < homes.size(); ++shard) {
      const Home& home = homes[shard];
      const bool is_next = home.next == server;
      if (!is_next && (home.second != server || !home.is_partial)) continue;
      const std::tuple copy(job, shard, is_next ? home.next_generation : home.generation);
      if (told_copies_.count(copy) == 0) copies_that_none_has_.insert(copy);
    }
  }
}

std::string Causes::OnHomes(uint32_t job, const std::vector<Home>& homes) {
  const auto [known, is_new] = homes_.emplace(job, homes);
  const std::vector<Home> before = std::exchange(known->second, homes);
  for (uint32_t shard = 0; shard < homes.size(); ++shard) {
    const Home& was = before[shard];
    const Home& is = homes[shard];
    if (is == was || MayMove(job, shard, was, is)) continue;
    const auto text = [](const Home& home) {
      return absl::StrFormat("on %s and %s%s in generation %d%s", home.first, home.second,
                             home.is_partial ? " (partial)" : "", home.generation,
                             home.next.empty() ? "" : absl::StrCat(", next on ", home.next));
    };
    return absl::StrFormat("job %d shard %d lay %s, now %s", job, shard, text(was), text(is));
  }
  return "";
}

void Causes::OnDrainAsked(const std::string& server, bool undo) {
  (undo ? drains_[server].back : drains_[server].out) = true;
}

void Causes::OnDrainDone(const std::string& server, bool undo) {
  drains_[server] = {.out = !undo, .back = undo};
}

bool Causes::MayBeOut(const std::string& server) const {
  const auto found = drains_.find(server);
  return found != drains_.end() && found->second.out;
}

bool Causes::MayBeBack(const std::string& server) const {
  const auto found = drains_.find(server);
  return found != drains_.end() && found->second.back;
}

bool Causes::MayDropNext(uint32_t job, uint32_t shard, const Home& was) const {
  const std::string& leaves = was.replaces_first ? was.first : was.second;
  const bool is_lost =
      IsServerLost(was.first) || IsServerLost(was.second) || IsServerLost(was.next);
  const std::tuple copy(job, shard, was.next_generation);
  return is_lost || refused_copies_.count(copy) > 0 || copies_that_none_has_.count(copy) > 0 ||
         MayBeBack(leaves) || MayBeOut(was.next);
}

bool Causes::MayStay(uint32_t job, uint32_t shard, const Home& was, const Home& is) const {
  if (is.first != was.first || is.second != was.second) return false;
  if (is.next == was.next) {  // the new copy is complete
    return was.is_partial && !is.is_partial && whole_copies_.count({job, shard, is.generation}) > 0;
  }
  if (is.is_partial != was.is_partial) return false;
  if (is.next.empty()) {
    return is.next_generation == was.next_generation && MayDropNext(job, shard, was);
  }
  const std::string& leaves = is.replaces_first ? is.first : is.second;
  return was.next.empty() && !is.is_partial && MayBeOut(leaves) && is.next != is.first &&
         is.next != is.second &&
         is.next_generation == 1 + std::max(was.generation, was.next_generation);
}

bool Causes::MayMove(uint32_t job, uint32_t shard, const Home& was, const Home& is) const {
  if (is.generation == was.generation) return MayStay(job, shard, was, is);
  if (!is.next.empty()) return false;
  if (!was.next.empty() && is.generation == was.next_generation) {
    return is.first == (was.replaces_first ? was.second : was.first) && is.second == was.next &&
           !is.is_partial && whole_copies_.count({job, shard, is.generation}) > 0;
  }
  if (is.generation != 1 + std::max(was.generation, was.next_generation)) return false;
  if (was.second.empty()) {  // a new one
    return is.first == was.first && !is.second.empty() && is.second != is.first && is.is_partial;
  }
  const bool takes_over = is.first == was.second;
  if (takes_over && was.is_partial) return false;
  const std::string& gone = takes_over ? was.first : was.second;
  const bool is_lost = IsServerLost(gone);
  const bool is_slow = !takes_over && (slow_backups_.count({job, shard}) > 0 ||
                                       refused_copies_.count({job, shard, was.generation}) > 0);
  const bool is_nowhere =
      !takes_over && copies_that_none_has_.count({job, shard, was.generation}) > 0;
  const bool leaves = was.is_partial && MayBeOut(was.second);
  const bool is_one_of_both = takes_over || is.first == was.first;
  return is_one_of_both && is.second.empty() && !is.is_partial &&
         (is_lost || is_slow || is_nowhere || leaves);
}

// There are servers, but not two of them when the job was placed.
bool Causes::MayLackHosts(const std::string& reason) const {
  const auto is_server = [](const std::string& daemon) {
    return absl::StartsWith(daemon, "server ");
  };
  const auto met = static_cast<size_t>(std::count_if(met_.begin(), met_.end(), is_server));
  const bool some_were_away = !kept_apart_.empty() || !silent_.empty() || met < servers_ ||
                              std::any_of(lost_.begin(), lost_.end(), is_server);
  if (!has_copies_ || !some_were_away) return false;
  // The last message of the wait may come from a worker that has just returned.
  return absl::StartsWith(reason, "waits to hear whether worker ") ||
         absl::StartsWith(reason, "replicas: a second copy lies on another host, but all servers ");
}

bool Causes::NamesOnlyCopy(uint32_t job, const std::string& server,
                           const std::string& reason) const {
  const std::vector<Home>& homes = homes_.at(job);
  for (uint32_t shard = 0; shard < homes.size(); ++shard) {
    const Home& home = homes[shard];
    const bool was_alone = home.first == server && (home.second.empty() || home.is_partial);
    const std::string end = absl::StrFormat("; it had the only copy of shard %d", shard);
    if (was_alone && absl::EndsWith(reason, end)) return true;
  }
  return false;
}

// A worker is away that the coordinator cannot know, or has waited for.
bool Causes::MayNotFit(absl::Time now) const {
  if (remembers_ && now - started_at_ < kRestartPatience) return false;
  return std::any_of(lost_.begin(), lost_.end(), [&](const std::string& daemon) {
    return absl::StartsWith(daemon, "worker ") && met_.count(daemon) == 0;
  });
}

// The job has waited this long for servers that were lost, that a worker did not reach, or whose
// reachability it did not report.
bool Causes::MayLackServers(uint32_t job, const std::string& reason, absl::Time now) const {
  const auto since = running_since_.find(job);
  if (since == running_since_.end() || now - since->second < kPlacePatience) return false;
  const bool is_waited_for =
      absl::StartsWith(reason, "waits ") || absl::StrContains(reason, " cannot reach ");
  const bool names_lost = std::any_of(lost_.begin(), lost_.end(), [&](const std::string& daemon) {
    if (reason == "no server is alive") return absl::StartsWith(daemon, "server ");
    return is_waited_for && absl::StrContains(reason, absl::StrCat(daemon, " "));
  });
  const auto names = [&](const std::string& worker, const std::string& server) {
    return absl::StrContains(reason, absl::StrFormat("worker %s ", worker)) &&
           absl::StrContains(reason, absl::StrFormat(" server %s ", server));
  };
  const bool names_silent = std::any_of(silent_.begin(), silent_.end(), [&](const auto& worker) {
    return absl::StartsWith(
        reason, absl::StrFormat("waits to hear whether worker %s reaches server ", worker));
  });
  const bool names_apart =
      std::any_of(kept_apart_.begin(), kept_apart_.end(), [&](const auto& pair) {
        return silent_.count(pair.first) > 0 && names(pair.first, pair.second);
      });
  return names_lost || names_silent || names_apart;
}

bool Causes::NamesLost(uint32_t job, const std::string& reason) const {
  return std::any_of(lost_.begin(), lost_.end(), [&](const std::string& daemon) {
    if (placed_.count({job, daemon}) == 0) return false;
    const bool has_copies = absl::StartsWith(daemon, "server ") && homes_.count(job) > 0;
    if (has_copies && !NamesOnlyCopy(job, daemon.substr(7), reason)) return false;
    // The process that replaced it does not know the job.
    const bool is_forgotten = absl::StrContains(reason, " no longer runs the job") ||
                              absl::StrContains(reason, " no longer holds the job's weights") ||
                              absl::StrContains(reason, " did not come back within 30s");
    return absl::StartsWith(reason, absl::StrCat(daemon, " ")) &&
           (absl::StrContains(reason, " is lost: ") || (is_forgotten && restarted_));
  });
}

}  // namespace strata::sim
