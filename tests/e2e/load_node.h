#ifndef STRATA_TESTS_E2E_LOAD_NODE_H_
#define STRATA_TESTS_E2E_LOAD_NODE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/control/credentials.h"
#include "common/control/session.h"
#include "proto/processes.pb.h"
#include "worker/contract/node_memory.h"

namespace strata::tests {

// The problem that the load program trains: plain SGD on gradients that are small integers, so that
// sums are exact. If the number of nodes is a power of two, the weights are exact, too.
struct LoadProblem {
  uint32_t nodes = 8;
  uint64_t elements = 2048;
  uint32_t chunk_elements = 256;
  uint64_t steps = 20;

  proto::Job Job() const;
  proto::NodeReady Ready(uint32_t job_id) const;
  void FirstWeights(absl::Span<float> weights) const;
  // Computes the gradient of one node, whose batch is one sample.
  void Gradients(uint32_t node, uint64_t step, absl::Span<float> gradients) const;
  // Compares the weights with those after all steps, computed directly. Returns what is wrong;
  // empty: nothing.
  std::string Check(absl::Span<const float> weights) const;
};

// A worker node with one rank: a real session with the coordinator, and an aggregator on a thread
// of this process. It plays one job, once.
// Threads: one owner, who calls Wait, Stop and the destructor.
class LoadNode {
 public:
  // `credentials`: those of worker NameOf(number).
  LoadNode(const LoadProblem& problem, const std::string& coordinator,
           control::Credentials credentials, uint32_t number);
  static std::string NameOf(uint32_t number);
  ~LoadNode();

  // Blocks until registered. Errors: those of control::Session::Start.
  absl::Status Start() { return session_->Start(); }
  // Stops and signs off.
  void Stop();

  // The node's result, once the job has ended; OK if all steps were made.
  bool ended();
  absl::Status result();
  // The final weights. REQUIRES: an OK result.
  absl::Span<const float> weights() const;
  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  void OnMessage(const proto::CoordinatorMessage& message);
  absl::Status Prepare(const proto::StartNode& start);
  absl::Status Train(const proto::RunNode& run);
  void End(const absl::Status& status);
  proto::Heartbeat Heartbeat();
  void Report(uint32_t job, uint64_t begin, uint64_t end, double wall_s);

  const LoadProblem problem_;
  const std::string name_;
  uint32_t job_ = 0;
  uint32_t node_ = 0;
  uint32_t incarnation_ = 0;
  std::unique_ptr<worker::NodeMemory> memory_;
  std::thread thread_;  // trains
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> memory_bytes_ = 0;
  std::atomic<uint64_t> memory_limit_bytes_ = 0;
  absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<control::Session> session_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_LOAD_NODE_H_
