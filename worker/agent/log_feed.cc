#include "worker/agent/log_feed.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::worker {
void LogFeed::OnWanted(const proto::LogWanted& wanted) {
  const uint64_t id = wanted.reading();
  if (wanted.has_begin()) return Begin(id, wanted.begin());
  const auto found = readings_.find(id);
  if (found == readings_.end()) return;  // it has ended meanwhile
  switch (wanted.what_case()) {
    case proto::LogWanted::kMoreCreditBytes:
      found->second.credit += wanted.more_credit_bytes();
      return;
    case proto::LogWanted::kJobEnded:
      found->second.job_ended = true;
      return;
    case proto::LogWanted::kEnd:
      readings_.erase(found);
      return;
    default:
      return;  // of a later version
  }
}

void LogFeed::Begin(uint64_t id, const proto::LogsBegin& begin) {
  Reading reading;
  reading.begin = begin;
  reading.credit = begin.credit_bytes();
  for (const proto::LogProcess& process : begin.processes()) {
    reading.logs.push_back({.process = process});
  }
  if (!reading.logs.empty()) readings_.insert_or_assign(id, std::move(reading));
}

bool LogFeed::Watches() const {
  return std::any_of(readings_.begin(), readings_.end(),
                     [](const auto& entry) { return entry.second.begin.lines().follow(); });
}

size_t LogFeed::OpenLogs() const {
  size_t open = 0;
  for (const auto& [id, reading] : readings_) {
    open += std::count_if(reading.logs.begin(), reading.logs.end(),
                          [](const Log& log) { return log.reader != nullptr; });
  }
  return open;
}

control::LogsSource::Step LogFeed::Next() {
  // Beginning with the one whose turn it is, each once.
  for (size_t i = readings_.size(); i > 0; --i) {
    auto at = readings_.lower_bound(next_);
    if (at == readings_.end()) at = readings_.begin();
    next_ = at->first + 1;
    Step step = Read(at->first, &at->second);
    if (at->second.logs.empty()) readings_.erase(at);
    // New requests are handled between two steps.
    if (step.goes_on) return step;
  }
  return {};
}

control::LogsSource::Step LogFeed::Read(uint64_t id, Reading* reading) {
  // Followed logs are read in turn; others are shown one after the other.
  for (size_t i = reading->logs.size(); i > 0; --i) {
    if (reading->next >= reading->logs.size()) reading->next = 0;
    const size_t at = reading->next;
    Step step = ReadLog(id, reading, &reading->logs[at]);
    if (reading->logs[at].ended) {
      reading->logs.erase(reading->logs.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (reading->begin.lines().follow()) {
      ++reading->next;
    }
    if (step.goes_on || !reading->begin.lines().follow()) return step;
  }
  return {};
}

control::LogsSource::Step LogFeed::ReadLog(uint64_t id, Reading* reading, Log* log) {
  if (reading->credit < LogReader::kShownLineBytesMax + kPartCost) return {};
  proto::LogPart part;
  part.set_reading(id);
  *part.mutable_process() = log->process;
  const proto::LogLinesWanted& lines = reading->begin.lines();
  // Checked before the log is read, so that everything written until then is read.
  const uint32_t job = reading->begin.job_id();
  const bool last = !lines.follow() || (reading->job_ended && !folders_->IsRunning(job));
  const auto fail = [&](const std::string& why) {
    part.set_error(why);
    part.set_ended(true);
    log->ended = true;
    return Step{.part = std::move(part), .goes_on = true};
  };
  if (log->reader == nullptr) {
    if (OpenLogs() >= open_max_) {
      return fail(
          absl::StrCat("this worker reads ", open_max_, " logs already, which is all it may"));
    }
    LogReader::Options options{.grep = lines.grep(), .follow = lines.follow()};
    if (lines.has_tail_lines() && !log->came_late) options.tail_lines = lines.tail_lines();
    absl::StatusOr<std::string> folder = folders_->Find(job, reading->begin.run_dir());
    auto reader = folder.ok() ? LogReader::Open(*folder, folders_->FileOf(log->process), options)
                              : folder.status();
    // It may be about to start.
    if (absl::IsNotFound(reader.status()) && !last) {
      log->came_late = true;
      return {};
    }
    if (!reader.ok()) return fail(std::string(reader.status().message()));
    log->reader = *std::move(reader);
  }
  const size_t room = std::min<size_t>(kPartBytesMax, reading->credit - kPartCost);
  absl::StatusOr<LogReader::Piece> piece = log->reader->Read(room, last);
  if (!piece.ok()) return fail(std::string(piece.status().message()));
  log->ended = piece->at_end && last;
  if (piece->lines.empty() && !log->ended) return {.part = std::nullopt, .goes_on = !piece->at_end};
  // The log may have been replaced by another job's, possibly another user's.
  const absl::Status still = folders_->Find(job, reading->begin.run_dir()).status();
  if (!still.ok()) return fail(std::string(still.message()));
  if (!piece->lines.empty()) reading->credit -= piece->lines.size() + kPartCost;
  part.set_lines(std::move(piece->lines));
  part.set_ended(log->ended);
  return {.part = std::move(part), .goes_on = true};
}

}  // namespace strata::worker
