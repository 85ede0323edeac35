#include "server/coordinator/jobs/log_readings.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/version.h"

namespace strata::server {
namespace {

bool IsSame(const proto::LogProcess& a, const proto::LogProcess& b) {
  return a.process_case() == b.process_case() && a.rank() == b.rank() &&
         a.aggregator_node() == b.aggregator_node();
}

constexpr size_t kErrorBytesMax = 400;
// For all readings: one reading of many workers has more than kBytesPerReadingMax under way.
constexpr size_t kBytesMax = 256 << 20;

// Returns the beginning of the text, in whole characters.
std::string Cut(const std::string& text) {
  if (text.size() <= kErrorBytesMax) return text;
  size_t end = kErrorBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// Returns the credit that a part costs.
size_t CostOf(const std::string& lines) {
  return lines.empty() ? 0 : lines.size() + LogReadings::kPartBytes;
}

LogReadings::Share ShareOf(const LogScene& scene, const std::string& worker,
                           const proto::LogLinesWanted& lines) {
  LogReadings::Share share{.worker = worker, .where = absl::StrCat("worker ", worker)};
  share.begin.set_job_id(scene.job.job_id());
  share.begin.set_run_dir(scene.job.run_dir());
  *share.begin.mutable_lines() = lines;
  for (const proto::DaemonStatus& daemon : scene.daemons.daemons()) {
    if (daemon.role() != proto::WORKER || daemon.name() != worker) continue;
    absl::StrAppend(&share.where, " (", daemon.address(), ")");
    if (!daemon.alive() || daemon.version() == STRATA_VERSION) break;
    const std::string version =
        daemon.version().empty() ? "before " STRATA_VERSION : daemon.version();
    share.cannot =
        absl::StrCat("worker ", worker, " is of version ", version, " and offers no logs now");
  }
  return share;
}

absl::Status NotThere(const proto::JobStatus& job, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("job ", job.job_id(), " has no ", what));
}

}  // namespace

std::string TextOf(const proto::LogProcess& process) {
  if (process.has_rank()) return absl::StrCat("rank ", process.rank());
  return absl::StrCat("aggregator of node ", process.aggregator_node());
}

void LogReadings::Send(uint64_t stream, uint64_t reading, proto::LogWanted wanted) {
  wanted.set_reading(reading);
  outgoing_.push_back({stream, std::move(wanted)});
}

void LogReadings::Fail(Reading* reading, size_t share, const std::string& why) {
  FailWith(reading, share, absl::StrCat("'s log is on ", reading->shares[share].where, ", ", why));
}

void LogReadings::FailWith(Reading* reading, size_t share, const std::string& text) {
  OpenShare& open = reading->shares[share];
  for (const proto::LogProcess& process : open.processes) {
    Queued queued{.share = share};
    *queued.lines.mutable_process() = process;
    queued.lines.set_error(absl::StrCat(TextOf(process), text));
    reading->queue.push_back(std::move(queued));
  }
  open.processes.clear();
  open.stream = 0;
}

void LogReadings::OnOffered(uint64_t stream, const std::string& worker) {
  const auto earlier = streams_.find(worker);
  if (earlier != streams_.end()) OnStreamGone(earlier->second);
  streams_[worker] = stream;
}

void LogReadings::OnStreamGone(uint64_t stream) {
  std::erase_if(streams_, [&](const auto& entry) { return entry.second == stream; });
  for (auto& [id, reading] : readings_) {
    for (size_t i = 0; i < reading.shares.size(); ++i) {
      if (reading.shares[i].stream == stream) Fail(&reading, i, "which is gone");
    }
  }
}

absl::StatusOr<uint64_t> LogReadings::Begin(const std::string& user,
                                            const std::vector<Share>& shares) {
  if (readings_.size() >= kReadingsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("logs: ", kReadingsMax, " are being looked at, which is all that may"));
  }
  const auto of_user = std::count_if(readings_.begin(), readings_.end(),
                                     [&](const auto& entry) { return entry.second.user == user; });
  if (static_cast<size_t>(of_user) >= kReadingsPerUserMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "logs: this user looks at ", kReadingsPerUserMax, " already, which is all that they may"));
  }
  const size_t count = std::max<size_t>(shares.size(), 1);
  const uint32_t credit =
      std::max(kCreditBytesMin, static_cast<uint32_t>(kBytesPerReadingMax / count));
  size_t bytes = credit * count;
  for (const auto& [id, reading] : readings_) bytes += reading.credit * reading.shares.size();
  if (bytes > kBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "logs: ", kBytesMax >> 20, " MiB of them may be under way, which are; ask for ",
        "fewer ranks, or later"));
  }
  const uint64_t id = next_reading_++;
  Reading& reading = readings_[id];
  reading.user = user;
  reading.credit = credit;
  for (size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    OpenShare open{.where = share.where, .credit = reading.credit};
    open.processes.assign(share.begin.processes().begin(), share.begin.processes().end());
    const auto stream = streams_.find(share.worker);
    if (stream != streams_.end()) open.stream = stream->second;
    reading.shares.push_back(std::move(open));
    if (stream == streams_.end()) {
      if (share.cannot.empty()) {
        Fail(&reading, i, "which is not there");
      } else {
        FailWith(&reading, i, absl::StrCat(": ", share.cannot));
      }
      continue;
    }
    proto::LogWanted wanted;
    *wanted.mutable_begin() = share.begin;
    wanted.mutable_begin()->set_credit_bytes(reading.credit);
    Send(stream->second, id, std::move(wanted));
  }
  return id;
}

void LogReadings::OnPart(uint64_t stream, proto::LogPart part) {
  const auto found = readings_.find(part.reading());
  if (found == readings_.end()) return;
  Reading& reading = found->second;
  for (size_t i = 0; i < reading.shares.size(); ++i) {
    OpenShare& open = reading.shares[i];
    if (open.stream != stream) continue;
    const auto process = std::find_if(open.processes.begin(), open.processes.end(),
                                      [&](const auto& one) { return IsSame(one, part.process()); });
    if (process == open.processes.end() || CostOf(part.lines()) > open.credit) {
      Fail(&reading, i, "which sends what it was not asked for");
      proto::LogWanted wanted;
      wanted.mutable_end();
      return Send(stream, found->first, std::move(wanted));
    }
    const uint32_t bytes = static_cast<uint32_t>(CostOf(part.lines()));
    open.credit -= bytes;
    open.queued += bytes;
    // Nothing else of a worker's message is kept.
    const proto::LogProcess which = *process;
    if (part.ended() || !part.error().empty()) open.processes.erase(process);
    if (open.processes.empty()) open.stream = 0;
    if (part.lines().empty() && part.error().empty()) return;
    Queued queued{.share = i};
    *queued.lines.mutable_process() = which;
    queued.lines.set_lines(std::move(*part.mutable_lines()));
    if (!part.error().empty()) {
      queued.lines.set_error(
          absl::StrCat(TextOf(which), "'s log on ", open.where, ": ", Cut(part.error())));
    }
    reading.queue.push_back(std::move(queued));
    return;
  }
}

std::optional<proto::LogLines> LogReadings::Take(uint64_t id) {
  const auto found = readings_.find(id);
  if (found == readings_.end() || found->second.queue.empty()) return std::nullopt;
  Reading& reading = found->second;
  Queued queued = std::move(reading.queue.front());
  reading.queue.pop_front();
  OpenShare& open = reading.shares[queued.share];
  const uint32_t bytes = static_cast<uint32_t>(CostOf(queued.lines.lines()));
  open.queued -= bytes;
  open.owed += bytes;
  // A message for every few bytes would cost as much as the bytes.
  const bool is_due = open.queued == 0 || open.owed >= reading.credit / 2;
  if (open.stream != 0 && open.owed > 0 && is_due) {
    proto::LogWanted wanted;
    wanted.set_more_credit_bytes(open.owed);
    open.credit += std::exchange(open.owed, 0);
    Send(open.stream, id, std::move(wanted));
  }
  return std::move(queued.lines);
}

bool LogReadings::HasNews(uint64_t id) const {
  const auto found = readings_.find(id);
  return found == readings_.end() || !found->second.queue.empty() || IsDone(id);
}

bool LogReadings::IsDone(uint64_t id) const {
  const auto found = readings_.find(id);
  if (found == readings_.end()) return true;
  const auto& shares = found->second.shares;
  return found->second.queue.empty() &&
         std::all_of(shares.begin(), shares.end(),
                     [](const OpenShare& share) { return share.stream == 0; });
}

void LogReadings::OnJobEnded(uint64_t id) {
  const auto found = readings_.find(id);
  if (found == readings_.end()) return;
  for (const OpenShare& share : found->second.shares) {
    if (share.stream == 0) continue;
    proto::LogWanted wanted;
    wanted.mutable_job_ended();
    Send(share.stream, id, std::move(wanted));
  }
}

void LogReadings::End(uint64_t id) {
  const auto found = readings_.find(id);
  if (found == readings_.end()) return;
  for (const OpenShare& share : found->second.shares) {
    if (share.stream == 0) continue;
    proto::LogWanted wanted;
    wanted.mutable_end();
    Send(share.stream, id, std::move(wanted));
  }
  readings_.erase(found);
}

absl::StatusOr<std::vector<LogReadings::Share>> SharesOf(const LogScene& scene,
                                                         const proto::ReadLogs& wanted) {
  std::set<uint32_t> ranks(wanted.ranks().begin(), wanted.ranks().end());
  std::set<uint32_t> nodes(wanted.nodes().begin(), wanted.nodes().end());
  if (wanted.aggregators() && !ranks.empty()) {
    return absl::InvalidArgumentError("ranks and aggregators: ask for one of the two");
  }
  const bool all = ranks.empty() && nodes.empty();
  std::map<std::string, LogReadings::Share> by_worker;
  bool has_begun = false;
  for (const proto::JobNodeStatus& node : scene.job.nodes()) {
    const bool whole = nodes.erase(node.node()) > 0 || all;
    std::vector<proto::LogProcess> processes;
    if (wanted.aggregators() && whole) {
      processes.emplace_back().set_aggregator_node(node.node());
    }
    for (uint32_t i = 0; i < node.ranks() && !wanted.aggregators(); ++i) {
      const bool one = ranks.erase(node.first_rank() + i) > 0;
      if (one || whole) processes.emplace_back().set_rank(node.first_rank() + i);
    }
    has_begun = has_begun || !node.daemon().empty();
    if (processes.empty()) continue;
    auto at = by_worker.find(node.daemon());
    if (at == by_worker.end()) {
      at = by_worker.emplace(node.daemon(), ShareOf(scene, node.daemon(), wanted.lines())).first;
    }
    if (node.daemon().empty()) at->second.cannot = "its node is on no worker at present";
    for (proto::LogProcess& process : processes) {
      *at->second.begin.add_processes() = std::move(process);
    }
  }
  if (!has_begun && scene.job.restarts_size() > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", scene.job.job_id(),
                     " waits to go on: until then its logs are only on the hosts where it ran"));
  }
  if (!has_begun) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", scene.job.job_id(), " has not begun, and has no logs yet"));
  }
  if (!ranks.empty()) return NotThere(scene.job, absl::StrCat("rank ", *ranks.begin()));
  if (!nodes.empty()) return NotThere(scene.job, absl::StrCat("node ", *nodes.begin()));
  std::vector<LogReadings::Share> shares;
  for (auto& [worker, share] : by_worker) shares.push_back(std::move(share));
  return shares;
}

LogPlaces::LogPlaces(const proto::JobStatus& job, const proto::ReadLogs& wanted) : wanted_(wanted) {
  News(job);
}

bool LogPlaces::IsWanted(const proto::JobNodeStatus& node) const {
  if (wanted_.nodes().empty() && wanted_.ranks().empty()) return true;
  const auto is_it = [&](uint32_t number) { return number == node.node(); };
  if (std::any_of(wanted_.nodes().begin(), wanted_.nodes().end(), is_it)) return true;
  return std::any_of(wanted_.ranks().begin(), wanted_.ranks().end(), [&](uint32_t rank) {
    return rank >= node.first_rank() && rank - node.first_rank() < node.ranks();
  });
}

std::vector<std::string> LogPlaces::News(const proto::JobStatus& job) {
  std::vector<std::string> news;
  for (const proto::JobNodeStatus& node : job.nodes()) {
    // A job that waits to resume has none.
    if (node.daemon().empty() || !IsWanted(node)) continue;
    const auto [at, is_new] = workers_.try_emplace(node.node(), node.daemon());
    if (!is_new && at->second == node.daemon()) continue;
    at->second = node.daemon();
    news.push_back(absl::StrCat("node ", node.node(), " is now on worker ", node.daemon(),
                                ", whose logs are not followed here: ask again for them"));
  }
  return news;
}

}  // namespace strata::server
