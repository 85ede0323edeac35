#ifndef STRATA_WORKER_CLIENT_CLIENT_PARTS_H_
#define STRATA_WORKER_CLIENT_CLIENT_PARTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"

namespace strata::rows {
struct TableSpec;  // rows/table_spec.h
}  // namespace strata::rows

namespace strata::device {
class Device;
class Stream;
}  // namespace strata::device

namespace strata::client {

// The rank's GPU, in jobs with `device: GPU`: Client::devices(). Programs that keep their tensors
// on the host do not need it.
//
// Threads: the client's.
class ClientDevices {
 public:
  virtual ~ClientDevices() = default;

  // Says that the program can have MAPPED tensors on a device, whose memory the host cannot touch.
  // Call it before Allocate, which else fails in a job with GPUs and a MAPPED tensor. Other jobs
  // ignore it.
  virtual void Accept() = 0;

  // The device that the rank computes on, after Start; null: the job uses none.
  virtual device::Device* device() const = 0;

  // Makes Wait, Publish and FinishStep points in the caller's `stream` instead of blocking: work
  // queued after Wait finds the weights there, and the gradient is complete once the work queued
  // before Publish is done. Null: they block again. Call it between steps; `stream` outlives the
  // last step in it, or the call with null. Errors: FailedPrecondition (no device(), or within a
  // step).
  virtual absl::Status ComputeIn(device::Stream* stream) = 0;
};

// Tables of rows that the job's servers keep: Client::rows(). Only in jobs with servers
// (exchange: PARAMETER_SERVER).
//
// Threads: the client's. Errors as of Client's calls; InvalidArgument also: no such table, ids that
// do not ascend or are not below 2^63.
class ClientRows {
 public:
  virtual ~ClientRows() = default;

  // Adds a table and returns its index, 0 for the first. Before Allocate; the same on every rank.
  virtual absl::StatusOr<int> Add(const rows::TableSpec& table) = 0;

  // Blocks until `to` has the present weights of the rows, ids.size() x columns values: in sync
  // with the steps of all ranks before this one, in async with all steps that this rank has
  // finished and what other nodes have pushed by now. A rank that has finished a step waits until
  // the others of its node have, too. Between Start and Finish. Ids ascend, each once.
  virtual absl::Status LookUp(int table, absl::Span<const uint64_t> ids, float* to) = 0;
  // The same for the rows of this step: those that Want has named for it have the weights that they
  // came with, which lack the steps since.
  virtual absl::Status Take(int table, absl::Span<const uint64_t> ids, float* to) = 0;
  // Says which rows this rank will take lookahead() steps after this one, or, between two steps,
  // after the one to come: they come with the answers to what the step pushes, and Take of some of
  // them in that step waits for no message. What does not fit into rows.bytes_per_step, or into a
  // message, does not come. Ids ascend, each once.
  virtual absl::Status Want(int table, absl::Span<const uint64_t> ids) = 0;
  virtual int lookahead() const = 0;  // the job's rows.lookahead
  // Adds gradients, ids.size() x columns sums over this rank's samples, to those of the step, for
  // which the table's learning rate is `rate`, the same on all ranks and in all calls of a step.
  // Within a step; FinishStep sends them. Ids ascend, each once.
  virtual absl::Status Push(int table, absl::Span<const uint64_t> ids, const float* gradients,
                            double rate) = 0;
};

// Marks in the job's trace: Client::trace(). They cost nothing in jobs without one.
//
// Threads: the client's.
class ClientTrace {
 public:
  virtual ~ClientTrace() = default;

  // The forward pass is over. Without this call it ends with the step's first Publish.
  virtual void BeginBackward() = 0;
};

// A rank's own state in its job's checkpoints: Client::checkpoints(). With JobFacts::keeps_state, a
// checkpoint is usable only with the state of every rank.
//
// Threads: the client's.
class ClientCheckpoints {
 public:
  virtual ~ClientCheckpoints() = default;

  // Returns whether a checkpoint is being taken and its state has not been given: after FinishStep
  // and before the next BeginStep, or before Finish. The state is what the next step begins with.
  // Also false if the store is so slow that two states are still unwritten: that checkpoint fails,
  // which the job's status shows.
  virtual bool due() const = 0;
  // Gives the state, which is written while training continues. If one is due and none is given,
  // the checkpoint fails. Errors: FailedPrecondition: none is due.
  virtual absl::Status Give(std::string state) = 0;

  // Returns the state that a rank gave for the checkpoint that the job resumes from. Waits for the
  // store. Errors: NotFound: the job does not resume, or no ranks kept state; InvalidArgument: no
  // such rank; DataLoss: the object is damaged, and the job resumes from an earlier checkpoint;
  // Internal: the store's. After the last two the program exits.
  virtual absl::StatusOr<Bytes> Read(uint32_t rank) = 0;
};

// The ranks that make a step of the job.
struct StepRanks {
  bool makes_it = true;            // this rank makes it; otherwise it has made its last step, and
                                   // finishes
  uint32_t rank = 0;               // its number among the ranks that make the step
  uint32_t ranks = 1;              // number of ranks that make the step
  uint64_t rank_steps_before = 0;  // sum over all ranks of the steps they made before

  bool operator==(const StepRanks&) const = default;
};

// The ranks of each step, in jobs that nodes may join and leave (ranks_max, ranks_min):
// Client::views(). A program that draws its samples by step and rank asks here which part of the
// step is its own, and whether it makes the step at all, so that no sample is lost or used twice.
// In other jobs all ranks make every step.
//
// Threads: the client's.
class ClientViews {
 public:
  virtual ~ClientViews() = default;

  // Returns the ranks of the step, which do not change from then on. Blocks while a change of nodes
  // that may take effect at the step is being agreed. BeginStep calls this itself, and returns
  // OutOfRange if the rank does not make the step; the program then calls Finish. Errors:
  // Unavailable; Cancelled (OnWait), after which it may be called again. After Finish, for the step
  // after the last: returns the remaining ranks, without nodes that died (on_loss: DROP), so that
  // one of them can do the final work for all. REQUIRES: Start has returned OK.
  virtual absl::StatusOr<StepRanks> At(uint64_t step) = 0;
  // The same for a later step, without blocking, for programs that read data ahead. None: unknown
  // yet.
  virtual absl::StatusOr<std::optional<StepRanks>> AtIfKnown(uint64_t step) = 0;
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CLIENT_PARTS_H_
