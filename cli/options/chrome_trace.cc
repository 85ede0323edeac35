#include "cli/options/chrome_trace.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/options/terminal.h"
#include "common/os/atomic_file.h"
#include "common/unique_fd.h"

namespace strata::cli {
namespace {

using proto::TraceEvent;

const char* NameOf(TraceEvent::Phase phase) {
  switch (phase) {
    case TraceEvent::READY:
      return "ready";
    case TraceEvent::SUM:
      return "sum";
    case TraceEvent::ENCODE:
      return "encode";
    case TraceEvent::SEND:
      return "send";
    case TraceEvent::SERVER_WAIT:
      return "server wait";
    case TraceEvent::APPLY:
      return "apply";
    case TraceEvent::ANSWER:
      return "answer";
    case TraceEvent::DECODE:
      return "decode";
    case TraceEvent::FORWARD:
      return "forward";
    case TraceEvent::BACKWARD:
      return "backward";
    case TraceEvent::WAIT:
      return "wait";
    case TraceEvent::TO_HOST:
      return "to host";
    case TraceEvent::TO_DEVICE:
      return "to device";
    case TraceEvent::REDUCE:
      return "reduce";
    default:
      return "unknown";
  }
}

// A device's engine works on one thing at a time: a row of the timeline, in this order.
enum class DeviceRow { kReductions, kSums, kToHost, kToDevice, kDecoding, kOther };

DeviceRow DeviceRowOf(TraceEvent::Phase phase) {
  switch (phase) {
    case TraceEvent::REDUCE:
      return DeviceRow::kReductions;
    case TraceEvent::SUM:
    case TraceEvent::ENCODE:
      return DeviceRow::kSums;
    case TraceEvent::TO_HOST:
      return DeviceRow::kToHost;
    case TraceEvent::TO_DEVICE:
      return DeviceRow::kToDevice;
    case TraceEvent::DECODE:
      return DeviceRow::kDecoding;
    default:
      return DeviceRow::kOther;
  }
}

const char* NameOf(DeviceRow row) {
  switch (row) {
    case DeviceRow::kReductions:
      return "NCCL";
    case DeviceRow::kSums:
      return "sums";
    case DeviceRow::kToHost:
      return "to host";
    case DeviceRow::kToDevice:
      return "to device";
    case DeviceRow::kDecoding:
      return "decoding";
    case DeviceRow::kOther:
      break;
  }
  return "other";
}

// Returns whether the phase is of whole steps, not of a chunk.
bool IsPass(TraceEvent::Phase phase) {
  return phase == TraceEvent::FORWARD || phase == TraceEvent::BACKWARD;
}

bool IsAsynchronous(TraceEvent::Phase phase) {
  return phase == TraceEvent::READY || phase == TraceEvent::SERVER_WAIT;
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Nodes before servers, and 10 after 9.
std::tuple<bool, std::string> SortKey(const std::string& process) {
  std::string key;
  for (size_t i = 0; i < process.size();) {
    if (!std::isdigit(static_cast<unsigned char>(process[i]))) {
      key += process[i++];
      continue;
    }
    std::string digits;
    while (i < process.size() && std::isdigit(static_cast<unsigned char>(process[i]))) {
      digits += process[i++];
    }
    key.append(digits.size() < 12 ? 12 - digits.size() : 0, '0');
    key += digits;
  }
  return {absl::StartsWith(process, "server "), key};
}

struct Process {
  std::string name, host;
  std::vector<const TraceEvent*> events;

  bool is_shard() const { return absl::StartsWith(name, "server "); }
  bool is_rank() const { return absl::StrContains(name, " rank "); }
};

class Writer {
 public:
  // Processes are numbered from 1 on.
  Writer(const proto::JobStatus& job, uint64_t start_us, size_t processes)
      : job_(job), start_us_(start_us), rows_(static_cast<int>(processes)) {}

  void Write(int pid, const Process& process) {
    const Row own{pid, pid};
    Metadata(own, "process_name", absl::StrFormat(R"("name":%s)", Quoted(process.name)));
    Metadata(own, "process_labels", absl::StrFormat(R"("labels":%s)", Quoted(process.host)));
    Metadata(own, "process_sort_index", absl::StrFormat(R"("sort_index":%d)", pid));
    const char* row = process.is_rank() ? "steps" : process.is_shard() ? "shard" : "exchange";
    Metadata(own, "thread_name", absl::StrFormat(R"("name":"%s")", row));
    const std::map<DeviceKey, Row> rows = DeviceRowsOf(pid, process);
    for (const TraceEvent* event : process.events) {
      const bool is_devices = event->device() > 0;
      Write(is_devices ? rows.at({event->device(), DeviceRowOf(event->phase())}) : own, process,
            *event);
    }
  }

  std::string text() && { return std::move(text_); }

 private:
  struct Row {
    int pid, tid;
  };
  using DeviceKey = std::pair<uint32_t, DeviceRow>;  // the device as in TraceEvent

  // Below the process's own row, by device.
  std::map<DeviceKey, Row> DeviceRowsOf(int pid, const Process& process) {
    std::map<DeviceKey, Row> rows;
    for (const TraceEvent* event : process.events) {
      if (event->device() > 0) rows[{event->device(), DeviceRowOf(event->phase())}] = {pid, 0};
    }
    int below = 0;
    for (auto& [key, row] : rows) {
      row.tid = ++rows_;
      Metadata(row, "thread_name",
               absl::StrFormat(R"("name":"GPU %d: %s")", key.first - 1, NameOf(key.second)));
      Metadata(row, "thread_sort_index", absl::StrFormat(R"("sort_index":%d)", ++below));
    }
    return rows;
  }

  void Line(const std::string& object) {
    text_ += text_.empty() ? "\n" : ",\n";
    text_ += object;
  }

  void Metadata(const Row& row, const char* name, const std::string& args) {
    Line(absl::StrFormat(R"({"ph":"M","name":"%s","pid":%d,"tid":%d,"args":{%s}})", name, row.pid,
                         row.tid, args));
  }

  std::string ArgsOf(const Process& process, const TraceEvent& event) const {
    std::string args = absl::StrFormat(R"("clock":%d)", event.clock());
    if (IsPass(event.phase())) return args;
    const uint64_t begin = uint64_t{event.chunk()} * job_.chunk_elements();
    const uint64_t elements = begin < job_.elements() ? job_.elements() - begin : 0;
    absl::StrAppendFormat(&args, R"(,"chunk":%d,"bytes":%d)", event.chunk(),
                          sizeof(float) * std::min<uint64_t>(elements, job_.chunk_elements()));
    if (process.is_shard()) absl::StrAppendFormat(&args, R"(,"node":%d)", event.node());
    return args;
  }

  void Write(const Row& row, const Process& process, const TraceEvent& event) {
    const uint64_t begin = event.start_us() - start_us_;
    const std::string what =
        absl::StrFormat(R"("name":"%s","cat":"%s","pid":%d,"tid":%d)", NameOf(event.phase()),
                        process.is_rank() ? "step" : "chunk", row.pid, row.tid);
    const std::string args = ArgsOf(process, event);
    if (!IsAsynchronous(event.phase())) {
      return Line(absl::StrFormat(R"({"ph":"X",%s,"ts":%d,"dur":%d,"args":{%s}})", what, begin,
                                  event.duration_us(), args));
    }
    ++asynchronous_;
    Line(absl::StrFormat(R"({"ph":"b",%s,"id":"%d","ts":%d,"args":{%s}})", what, asynchronous_,
                         begin, args));
    Line(absl::StrFormat(R"({"ph":"e",%s,"id":"%d","ts":%d})", what, asynchronous_,
                         begin + event.duration_us()));
  }

  const proto::JobStatus& job_;
  const uint64_t start_us_;
  int rows_;  // the last one's number
  uint64_t asynchronous_ = 0;
  std::string text_;
};

// Orders by time. If two events begin together, the longer one comes first, as it contains the
// other.
bool Before(const TraceEvent* a, const TraceEvent* b) {
  if (a->start_us() != b->start_us()) return a->start_us() < b->start_us();
  return a->duration_us() > b->duration_us();
}

std::vector<Process> ListProcesses(const std::vector<proto::TraceBatch>& batches) {
  std::map<std::tuple<bool, std::string>, Process> sorted;
  for (const proto::TraceBatch& batch : batches) {
    if (batch.events().empty()) continue;
    Process& process = sorted[SortKey(batch.process())];
    process.name = batch.process();
    process.host = batch.host();
    for (const TraceEvent& event : batch.events()) process.events.push_back(&event);
  }
  std::vector<Process> processes;
  for (auto& [key, process] : sorted) {
    std::stable_sort(process.events.begin(), process.events.end(), Before);
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace

TraceCounts Count(const std::vector<proto::TraceBatch>& batches) {
  TraceCounts counts;
  for (const proto::TraceBatch& batch : batches) {
    counts.events += batch.events_size();
    counts.left_out += batch.dropped();
  }
  return counts;
}

std::string ChromeTrace(const std::vector<proto::TraceBatch>& batches,
                        const proto::JobStatus& job) {
  const std::vector<Process> processes = ListProcesses(batches);
  uint64_t start_us = UINT64_MAX;
  for (const Process& process : processes) {
    start_us = std::min(start_us, process.events[0]->start_us());
  }
  if (processes.empty()) start_us = 0;
  Writer writer(job, start_us, processes.size());
  for (size_t i = 0; i < processes.size(); ++i) writer.Write(static_cast<int>(i) + 1, processes[i]);
  return absl::StrFormat(
      R"({"displayTimeUnit":"ms","otherData":{"job":"%d","name":%s,"start_unix_us":"%d",)"
      R"("left_out":"%d"},"traceEvents":[%s)"
      "\n]}\n",
      job.job_id(), Quoted(job.name()), start_us, Count(batches).left_out,
      std::move(writer).text());
}

namespace {

absl::Status Unwritable(int error_number, const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("--trace ", FileError(error_number, path).message()));
}

}  // namespace

absl::Status CheckTraceFile(const std::string& path) {
  struct stat there;
  const bool exists = stat(path.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) return Unwritable(EISDIR, path);
  if (exists && !S_ISREG(there.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("--trace ", path, ": not a regular file"));
  }
  // The same as for the later write: a temporary file in the same folder, renamed at the end.
  const std::string beside = absl::StrCat(path, ".tmp.", getpid());
  const UniqueFd file(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) return Unwritable(errno, path);
  unlink(beside.c_str());
  return absl::OkStatus();
}

absl::Status WriteTrace(control::CoordinatorClient* client, JobId job, const std::string& path,
                        bool quiet) {
  std::vector<proto::TraceBatch> batches;
  absl::Status status =
      client->GetTrace(job, [&](const proto::TraceBatch& batch) { batches.push_back(batch); });
  if (!status.ok()) return status;
  const absl::StatusOr<proto::JobStatus> ended = client->GetJob(job);
  if (!ended.ok()) return ended.status();
  status = WriteFileAtomically(path, ChromeTrace(batches, *ended));
  if (!status.ok()) return status;
  const TraceCounts counts = Count(batches);
  const proto::Trace& asked = ended->job().trace();
  if (counts.left_out > 0) {
    PrintF(stderr,
           "strata: warning: %s lacks about %" PRIu64
           " events for which there was no room: trace fewer steps\n",
           path, counts.left_out);
  } else if (counts.events == 0) {
    PrintF(stderr,
           "strata: warning: %s is empty: no rank made a step from step %" PRIu64
           " on, or the coordinator was restarted\n",
           path, asked.first_step());
  }
  if (quiet) return absl::OkStatus();
  PrintF(stdout, "trace: %s (%" PRIu64 " events; open it at https://ui.perfetto.dev)\n", path,
         counts.events);
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace strata::cli
