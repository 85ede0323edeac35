#ifndef STRATA_CLI_COMMANDS_NAMED_TENSORS_H_
#define STRATA_CLI_COMMANDS_NAMED_TENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/commands/checkpoint_objects.h"
#include "common/image/safetensors.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"

namespace strata::cli {

// The name of one vector of an optimizer's state.
struct StateName {
  std::string name;
  bool negated = false;  // the named vector is the state times -1
  float added = 0;       // and plus this
};

// An optimizer's state by PyTorch's names.
struct OptimizerNames {
  std::string optimizer;           // as in proto/job.proto: "adamw"
  std::vector<StateName> vectors;  // in the order of images
  bool has_step = false;           // PyTorch's optimizer counts its updates
};

// The formulas of proto/job.proto beside those of torch.optim:
// - momentum_sgd, nesterov: v is SGD's momentum_buffer, whose dampening is 0.
// - adam, adamw: m and v are exp_avg and exp_avg_sq, both before the correction of their bias.
// - rmsprop_warmup: m is RMSprop's square_avg. d, which is added to the weights, is its
//   momentum_buffer, which is subtracted, times -1. What d has of momentum SGD stays in it.
// - adagrad: n with its first value is Adagrad's sum.
// - ftrl: torch.optim has none. z is called linear, n accumulator.
// - lars: torch.optim has none. v holds the learning rates and the trust of the steps that made it,
//   which no formula takes out: it is called velocity.
OptimizerNames NamesOf(const proto::Optimizer& optimizer);

// The weights of a checkpoint, and the optimizer's state, as tensors with the names and shapes of
// the job's layout: the final weights of a job that had ended there. State is called
// "optimizer/STATE/NAME", or "outer/STATE/NAME" if it is that of `outer`; averaged tensors have
// none. Tensors by which Python's ranks only compare what they do not train are omitted.
//
// Where the program takes mean gradients, it has the weights. Those of strata.torch are in the
// state of rank 0: the parameters, and the buffers of fp32, without the optimizer's state.
//
// Memory: all of it, as fp32. Threads: one.
class NamedTensors {
 public:
  // The record outlives it.
  NamedTensors(const proto::JobRecord& record, bool with_optimizer);

  // For ReadObjects; this outlives it.
  ObjectTaker MakeTaker();

  // Call this once all objects have been read. This object owns the values. Errors:
  // InvalidArgument: two tensors of one name; the tensors are in node images, and the checkpoint
  // has none; the program has the weights, and no state in which they are known.
  absl::StatusOr<std::vector<TensorToSave>> Tensors();

  // Notes for the user, a line each, once Tensors has been called.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  // The state of one optimizer over the arena.
  struct State {
    std::string room;  // "optimizer" or "outer"
    OptimizerNames names;
    std::vector<std::vector<float>> vectors;
    struct Range {
      uint64_t begin = 0, end = 0, updates = 0;
    };
    std::vector<Range> ranges;
    std::vector<float> missed;  // number of missed updates by element; empty: none
    std::vector<float> steps;   // of tensors
  };
  enum class Source { kChunks, kNorms, kRank };

  static Source SourceOf(const proto::Job& job);
  State MakeState(const std::string& room, const proto::Optimizer& optimizer) const;
  void TakeChunk(const ChunkImage& image);
  void TakeNode(const NodeImage& image);
  void TakeRank(const RankImage& image);
  // Returns what the state of rank 0 has. Errors as Tensors'.
  absl::StatusOr<std::vector<TensorToSave>> TensorsOfRank();
  static void CopyState(uint64_t begin, const WeightImage& image, State* state);
  // Returns a tensor's number of updates in `state`; the least if its ranges differ.
  uint64_t StepOf(const State& state, int segment) const;
  void AddState(State* state, std::vector<TensorToSave>* tensors);
  void Note(const State& state);

  const proto::JobRecord& record_;
  const Source source_;
  uint32_t node_ = 0;  // whose image is used
  bool needs_node_ = false, has_node_ = false;
  std::vector<float> weights_;
  const bool with_optimizer_;
  // The tensors that the program keeps, or the error that says why they cannot be exported.
  absl::StatusOr<std::vector<SavedTensor>> kept_;
  // The state of the weights that all nodes share, and of each node's own.
  std::unique_ptr<State> shared_, own_;
  std::vector<std::string> notes_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_NAMED_TENSORS_H_
