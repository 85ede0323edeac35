#include "server/coordinator/logs/log_readings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::server {
namespace {

bool IsSame(const proto::LogProcess& a, const proto::LogProcess& b) {
  return a.process_case() == b.process_case() && a.rank() == b.rank() &&
         a.aggregator_node() == b.aggregator_node();
}

constexpr size_t kErrorBytesMax = 400;
// Of all readings: one of the logs of many workers has more under way than kBytesPerReadingMax.
constexpr size_t kBytesMax = 256 << 20;

// The text's beginning, of whole characters.
std::string Cut(const std::string& text) {
  if (text.size() <= kErrorBytesMax) return text;
  size_t end = kErrorBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// What a part takes off the credit.
size_t CostOf(const std::string& lines) {
  return lines.empty() ? 0 : lines.size() + LogReadings::kPartBytes;
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
    // Of a worker's message nothing else is kept.
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
  // A message for every few bytes would be as much again as those.
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

}  // namespace strata::server
