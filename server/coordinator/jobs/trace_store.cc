#include "server/coordinator/jobs/trace_store.h"

#include <xxhash.h>

#include "common/job/trace_log.h"

namespace strata::server {
namespace {

// A batch's overhead in the lists, in bytes.
constexpr size_t kBatchBytes = 160;

}  // namespace

void TraceStore::Add(const proto::TraceBatch& batch) {
  const JobId job(batch.job_id());
  if (!traces_.contains(job)) ForgetJobs(job);
  Trace& trace = traces_[job];
  if (IsTraceEnd(batch)) {
    trace.complete.insert(batch.host());
    return;
  }
  trace.complete.erase(batch.host());  // a node that was restarted there has more to send
  // Without events all batches look alike: the missing ones are counted on each repeat.
  if (batch.events().empty()) {
    trace.left_out += batch.dropped();
    return;
  }
  auto text = std::make_shared<const std::string>(batch.SerializeAsString());
  const uint64_t checksum = XXH3_64bits(text->data(), text->size());
  if (trace.seen.contains(checksum)) return;
  const size_t bytes = text->size() + kBatchBytes;
  if (!MakeRoom(bytes, job)) {
    trace.left_out += batch.events_size() + batch.dropped();
    return;
  }
  trace.seen.insert(checksum);
  bytes_ += bytes;
  trace.bytes += bytes;
  trace.events += batch.events_size() + batch.dropped();
  trace.batches.push_back(std::move(text));
}

bool TraceStore::MakeRoom(size_t bytes, JobId keep) {
  if (bytes > bytes_max_) return false;
  while (bytes_ + bytes > bytes_max_) {
    if (!LetGo(keep)) return false;
  }
  return true;
}

bool TraceStore::LetGo(JobId keep) {
  for (auto& [job, trace] : traces_) {
    if (job == keep || trace.bytes == 0 || !has_ended_(job)) continue;
    bytes_ -= std::exchange(trace.bytes, 0);
    trace.left_out += std::exchange(trace.events, 0);
    trace.batches.clear();
    trace.seen.clear();
    return true;
  }
  return false;
}

void TraceStore::ForgetJobs(JobId keep) {
  for (auto it = traces_.begin(); it != traces_.end() && traces_.size() >= kJobsMax;) {
    if (it->first == keep || !has_ended_(it->first)) {
      ++it;
      continue;
    }
    bytes_ -= it->second.bytes;
    it = traces_.erase(it);
  }
}

TraceStore::Batches TraceStore::Find(JobId job) const {
  const auto found = traces_.find(job);
  if (found == traces_.end()) return {};
  Batches batches = found->second.batches;
  if (found->second.left_out > 0) {
    proto::TraceBatch rest;
    rest.set_job_id(job.value());
    rest.set_process("coordinator");
    rest.set_dropped(found->second.left_out);
    batches.push_back(std::make_shared<const std::string>(rest.SerializeAsString()));
  }
  return batches;
}

bool TraceStore::HasAllFrom(JobId job, const std::string& daemon) const {
  const auto found = traces_.find(job);
  return found != traces_.end() && found->second.complete.contains(daemon);
}

}  // namespace strata::server
