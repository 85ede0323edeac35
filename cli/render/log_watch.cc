#include "cli/render/log_watch.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "cli/render/log_lines.h"

namespace strata::cli {
namespace {

// The last lines of each process that are there when a reading begins.
constexpr size_t kTailLinesMax = 100;
constexpr absl::Duration kAgainAfterMax = absl::Minutes(5);

proto::ReadLogs RequestOf(const LogChoice& choice, uint32_t ranks, size_t lines_max) {
  proto::ReadLogs request;
  request.set_job_id(choice.job);
  request.set_aggregators(choice.aggregators);
  size_t processes = std::max(ranks, 1u);
  if (choice.rank.has_value()) {
    request.add_ranks(*choice.rank);
    processes = 1;
  }
  request.mutable_lines()->set_follow(true);
  request.mutable_lines()->set_tail_lines(
      std::clamp(lines_max / processes, size_t{1}, kTailLinesMax));
  return request;
}

std::string NameOf(const proto::LogProcess& process) {
  if (process.has_rank()) return absl::StrCat(process.rank());
  if (process.has_aggregator_node()) return absl::StrCat("aggregator ", process.aggregator_node());
  return "";
}

// No character is cut in two.
std::string Cut(std::string text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  const size_t all = text.size();
  while (bytes_max > 0 && (text[bytes_max] & 0xc0) == 0x80) --bytes_max;
  text.resize(bytes_max);
  return absl::StrCat(text, "… (", all, " bytes)");
}

// A later reading may go well.
bool MayGoWellLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsFailedPrecondition(status) ||
         absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

LogWatch::~LogWatch() {
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    for (Reading& reading : readings_) {
      reading.source->Stop();
      threads.push_back(std::move(reading.thread));
    }
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

bool LogWatch::TakeNews(const LogChoice& choice, const LogJob& job, LogPlace* place,
                        LogNews* news) {
  absl::MutexLock lock(&mutex_);
  Reading* const reading = Find(choice, job);
  const absl::Time now = absl::Now();
  if (reading == nullptr) {
    // Told once: its place is as of a reading that has no number.
    constexpr uint64_t kTold = 1;
    if (place->reading == 0 && place->version == kTold) return false;
    *place = {.version = kTold};
    news->anew = true;
    news->problem = absl::StrCat("as many logs as may be, ", options_.readings_max,
                                 ", are looked at: close another one");
    return true;
  }
  const bool ended = job.has_ended && reading->is_over && reading->status.ok();
  if (ended != reading->is_told_ended) ++reading->version;
  reading->is_told_ended = ended;
  if (place->reading == reading->number && place->version == reading->version) return false;
  if (now - place->told_at < options_.change_every) return false;
  news->anew = place->reading != reading->number;
  if (news->anew) place->line = reading->first;
  if (place->line < reading->first) {
    news->passed_over = reading->first - place->line;
    place->line = reading->first;
  }
  news->lines.assign(reading->lines.begin() + (place->line - reading->first), reading->lines.end());
  news->problem = absl::StrReplaceAll(reading->status.message(), {{"\n", " "}});
  news->ended = ended;
  *place = {.reading = reading->number,
            .version = reading->version,
            .line = reading->first + reading->lines.size(),
            .told_at = now};
  return true;
}

// Returns whether to read again: the read may succeed now, or find more.
bool LogWatch::IsDue(const Reading& reading, const LogJob& job, absl::Time now) const {
  if (reading.is_over) {
    // A job that continues has more, wherever its nodes are by then.
    const bool has_more = reading.status.ok() ? !job.has_ended : MayGoWellLater(reading.status);
    return has_more && now - reading.over_at > options_.retry_after;
  }
  return reading.has_problem && !job.has_ended && now - reading.began > reading.again_after;
}

LogWatch::Reading* LogWatch::Find(const LogChoice& choice, const LogJob& job) {
  const absl::Time now = absl::Now();
  Reading* before = nullptr;
  for (Reading& reading : readings_) {
    const bool is_this = reading.choice == choice && reading.cluster == job.cluster;
    if (!is_this || reading.is_stopping) continue;
    if (IsDue(reading, job, now)) {
      before = &reading;
      continue;
    }
    reading.looked_at = now;
    // It goes well, and has nothing yet.
    const bool is_well = !reading.is_over && now - reading.began > options_.well_after;
    if (is_well && !reading.status.ok()) {
      reading.status = absl::OkStatus();
      ++reading.version;
    }
    return &reading;
  }
  if (before != nullptr) before->looked_at = now;
  SweepAt(now);
  // Readings that are stopping count, too. Lines read so far are kept meanwhile.
  if (readings_.size() >= 2 * options_.readings_max) return before;
  if (before == nullptr && !MakeRoom(now)) return nullptr;
  Reading next{.choice = choice,
               .cluster = job.cluster,
               .began = now,
               .looked_at = now,
               .again_after = options_.again_after,
               .source = options_.connect()};
  if (before != nullptr) {
    if (before->has_problem) next.again_after = std::min(2 * before->again_after, kAgainAfterMax);
    next.number = before->number;
    next.status = before->status;
    next.lines = std::move(before->lines);
    next.first = before->first;
    next.version = before->version;
    next.is_of_before = true;
    End(before);
  } else {
    next.number = ++newest_;
  }
  return Begin(std::move(next), job);
}

void LogWatch::End(Reading* reading) {
  reading->is_stopping = true;
  reading->source->Stop();
}

// Makes room for one more reading; one that was looked at a moment ago stays.
bool LogWatch::MakeRoom(absl::Time now) {
  size_t looked_at = 0;
  Reading* oldest = nullptr;
  for (Reading& reading : readings_) {
    if (reading.is_stopping) continue;
    ++looked_at;
    if (oldest == nullptr || reading.looked_at < oldest->looked_at) oldest = &reading;
  }
  if (looked_at < options_.readings_max) return true;
  if (now - oldest->looked_at < options_.gives_way_after) return false;
  End(oldest);
  return true;
}

LogWatch::Reading* LogWatch::Begin(Reading next, const LogJob& job) {
  const proto::ReadLogs request = RequestOf(next.choice, job.ranks, options_.lines_max);
  Reading* const reading = &readings_.emplace_back(std::move(next));
  try {
    reading->thread = std::thread([this, reading, request] { Read(reading, request); });
  } catch (const std::exception& error) {
    reading->status = absl::ResourceExhaustedError(
        absl::StrCat("no thread can be started to read this log: ", error.what()));
    reading->over_at = reading->began;
    reading->is_over = true;
    ++reading->version;
  }
  return reading;
}

void LogWatch::Sweep() {
  absl::MutexLock lock(&mutex_);
  SweepAt(absl::Now());
}

void LogWatch::SweepAt(absl::Time now) {
  for (auto it = readings_.begin(); it != readings_.end();) {
    Reading& reading = *it;
    if (!reading.is_stopping && now - reading.looked_at > options_.idle_after) End(&reading);
    const bool is_gone = reading.is_stopping && reading.is_over;
    if (is_gone && reading.thread.joinable()) reading.thread.join();  // it is at its end
    it = is_gone ? readings_.erase(it) : std::next(it);
  }
}

void LogWatch::Read(Reading* reading, const proto::ReadLogs& request) {
  absl::Status status =
      reading->source->Read(request, [&](const proto::LogLines& lines) { Hear(reading, lines); });
  {
    absl::MutexLock lock(&mutex_);
    if (status.ok()) StartOver(reading);
    if (status.ok() || status != reading->status) ++reading->version;
    reading->status = std::move(status);
    reading->over_at = absl::Now();
    reading->is_over = true;
  }
  options_.on_change();
}

// Lines of an earlier reading are kept until this one has some.
void LogWatch::StartOver(Reading* reading) {
  if (!reading->is_of_before) return;
  reading->is_of_before = false;
  reading->number = ++newest_;
  reading->status = absl::OkStatus();
  reading->lines.clear();
  reading->first = 0;
}

void LogWatch::Hear(Reading* reading, const proto::LogLines& lines) {
  const std::string process = NameOf(lines.process());
  {
    absl::MutexLock lock(&mutex_);
    // A reading that is being replaced shows nothing more.
    if (reading->is_stopping) return;
    StartOver(reading);
    reading->has_problem |= !lines.error().empty();
    absl::string_view rest = lines.lines();
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      Add({process, PlainLine(rest.substr(0, end))}, reading);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!lines.error().empty()) {
      Add({process, PlainLine(lines.error()), /*is_problem=*/true}, reading);
    }
    const absl::Time now = absl::Now();
    if (now - reading->told_at < options_.change_every) return;
    reading->told_at = now;
  }
  options_.on_change();
}

void LogWatch::Add(LogLine line, Reading* reading) {
  line.text = Cut(std::move(line.text), options_.line_bytes_max);
  reading->lines.push_back(std::move(line));
  ++reading->version;
  if (reading->lines.size() <= options_.lines_max) return;
  reading->lines.pop_front();
  ++reading->first;
}

}  // namespace strata::cli
