#ifndef STRATA_CLI_CHECKPOINT_NAMED_TENSORS_H_
#define STRATA_CLI_CHECKPOINT_NAMED_TENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/checkpoint/checkpoint_objects.h"
#include "cli/checkpoint/optimizer_names.h"
#include "common/image/safetensors.h"
#include "proto/record.pb.h"

namespace strata::cli {

// The weights of a checkpoint, and the optimizer's state, as tensors with the names and shapes of
// the job's layout: the weights that a job which ended there would have ended with. State is called
// "optimizer/STATE/NAME", and "outer/STATE/NAME" where it is that of `outer`; tensors that are
// averaged have none. Tensors by which Python's ranks only compare what they do not train are left
// out.
//
// Memory: all of it, as fp32. Threads: one.
class NamedTensors {
 public:
  // The record outlives it. Errors: InvalidArgument: the job's checkpoints have none of its
  // weights.
  static absl::StatusOr<std::unique_ptr<NamedTensors>> Create(const proto::JobRecord& record,
                                                              bool with_optimizer);

  // For ReadObjects; this outlives it.
  ObjectTaker MakeTaker();

  // Once all objects have been read. The values are this object's. Errors: InvalidArgument: two
  // tensors of one name; what is asked for is in node images, and there is none.
  absl::StatusOr<std::vector<TensorToSave>> Tensors();

  // What a user should know of them, a line each. Once Tensors has been called.
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
    std::vector<float> steps;  // of tensors
  };
  enum class Source { kChunks, kNorms };

  NamedTensors(const proto::JobRecord& record, bool with_optimizer);

  State MakeState(const std::string& room, const proto::Optimizer& optimizer) const;
  void TakeChunk(const ChunkImage& image);
  void TakeNode(const NodeImage& image);
  static void CopyState(uint64_t begin, const WeightImage& image, State* state);
  // The count of updates of a tensor in `state`; the least where its ranges have had different
  // ones.
  uint64_t StepOf(const State& state, int segment) const;
  void AddState(State* state, std::vector<TensorToSave>* tensors);
  void Note(const State& state);

  const proto::JobRecord& record_;
  const Source source_;
  uint32_t node_ = 0;  // whose image counts
  bool needs_node_ = false, has_node_ = false;
  std::vector<float> weights_;
  // Of the weights that all nodes share; and of those that a node has of its own.
  std::unique_ptr<State> shared_, own_;
  std::vector<std::string> notes_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CHECKPOINT_NAMED_TENSORS_H_
