#include "cli/commands/named_tensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "common/job/consistency.h"

namespace strata::cli {

OptimizerNames NamesOf(const proto::Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case proto::Optimizer::kSgd:
      return {.optimizer = "sgd"};
    case proto::Optimizer::kMomentumSgd:
      return {.optimizer = "momentum_sgd", .vectors = {{"momentum_buffer"}}};
    case proto::Optimizer::kNesterov:
      return {.optimizer = "nesterov", .vectors = {{"momentum_buffer"}}};
    case proto::Optimizer::kAdam:
      return {.optimizer = "adam", .vectors = {{"exp_avg"}, {"exp_avg_sq"}}, .has_step = true};
    case proto::Optimizer::kAdamw:
      return {.optimizer = "adamw", .vectors = {{"exp_avg"}, {"exp_avg_sq"}}, .has_step = true};
    case proto::Optimizer::kLars:
      return {.optimizer = "lars", .vectors = {{"velocity"}}};
    case proto::Optimizer::kRmspropWarmup:
      return {.optimizer = "rmsprop_warmup",
              .vectors = {{"square_avg"}, {.name = "momentum_buffer", .negated = true}},
              .has_step = true};
    case proto::Optimizer::kAdagrad:
      return {.optimizer = "adagrad",
              .vectors = {{.name = "sum", .added = optimizer.adagrad().initial_accumulator()}},
              .has_step = true};
    case proto::Optimizer::kFtrl:
      return {.optimizer = "ftrl", .vectors = {{"linear"}, {"accumulator"}}};
    case proto::Optimizer::kMean:
      return {.optimizer = "mean"};
    case proto::Optimizer::kFromProgram:
    case proto::Optimizer::KIND_NOT_SET:
      break;
  }
  return {};
}

namespace {

// Matches Python's names for values that ranks compare but do not train
// (python/strata/torch/_tensors.py), and tell each other in a step (_exchange.py).
bool IsMark(const std::string& name) {
  return name == "strata.skip" || name == "strata.used" ||
         absl::StrContains(name, " (frozen, checksum ") ||
         absl::StrContains(name, " (buffer, checksum ");
}

uint64_t EndOf(const proto::Layout& layout, int segment) {
  return segment + 1 == layout.segments_size() ? layout.elements()
                                               : layout.segments(segment + 1).offset();
}

// The optimizer of the weights that nodes with local steps share.
proto::Optimizer OuterOptimizer(const proto::Job& job) {
  proto::Optimizer optimizer;
  if (SharedOptimizer(job).kind == OptimizerKind::kNesterov) {
    optimizer.mutable_nesterov();
  } else {
    optimizer.mutable_sgd();
  }
  return optimizer;
}

// The state of a rank as strata.torch writes it (python/strata/torch/_state_file.py): the places of
// its tensors in it are their names.
constexpr char kStateFormat[] = "strata-rank-state-1";
constexpr absl::string_view kParameters = "state/shared/params/", kBuffers = "state/own/buffers/";

absl::Status ProgramHasWeights(absl::string_view rest) {
  return absl::InvalidArgumentError(
      absl::StrCat("the job's optimizer is mean: its program has the weights, ", rest));
}

// Errors: InvalidArgument: no state of strata.torch with parameters, or one of another type.
absl::StatusOr<std::vector<SavedTensor>> WeightsInState(const Bytes& state) {
  const absl::Span<const char> content(reinterpret_cast<const char*>(state.data()), state.size());
  const absl::StatusOr<ModelView> read = ViewSafetensorsOfAnyType(content, "the state of rank 0");
  std::vector<SavedTensor> weights;
  bool has_parameters = false;
  if (read.ok()) {
    const auto format = read->metadata.find("format");
    const bool is_known = format != read->metadata.end() && format->second == kStateFormat;
    for (const TensorView& tensor : read->tensors) {
      absl::string_view name = tensor.name;
      const bool is_parameter = is_known && absl::ConsumePrefix(&name, kParameters);
      const bool is_buffer = is_known && !is_parameter && absl::ConsumePrefix(&name, kBuffers);
      has_parameters = has_parameters || is_parameter;
      if (is_parameter && tensor.dtype != "F32") {
        return ProgramHasWeights(absl::StrCat("and ", ShownName(name), " is of type ", tensor.dtype,
                                              ": those of F32 alone are exported"));
      }
      if (!is_parameter && (!is_buffer || tensor.dtype != "F32")) continue;
      SavedTensor taken = {.name = std::string(name), .shape = tensor.shape};
      taken.values.resize(tensor.values.size() / sizeof(float));
      std::copy(tensor.values.begin(), tensor.values.end(),
                reinterpret_cast<char*>(taken.values.data()));
      weights.push_back(std::move(taken));
    }
  }
  if (has_parameters) return weights;
  return ProgramHasWeights(
      "and keeps them in a form of its own: go on from the checkpoint with --resume, and let the "
      "program save them");
}

absl::Status CheckNamesDiffer(const std::vector<TensorToSave>& tensors) {
  std::set<absl::string_view> names;
  for (const TensorToSave& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("two tensors are called ", tensor.name));
  }
  return absl::OkStatus();
}

void CopyTo(std::vector<float>* arena, uint64_t begin, const Bytes& values,
            const StateName& as = {}) {
  const absl::Span<const float> from(values.floats(), values.float_count());
  std::transform(from.begin(), from.end(), arena->begin() + static_cast<ptrdiff_t>(begin),
                 [&as](float x) {
                   const float value = as.negated ? -x : x;
                   return as.added == 0 ? value : value + as.added;
                 });
}

}  // namespace

NamedTensors::Source NamedTensors::SourceOf(const proto::Job& job) {
  if (job.optimizer().has_mean() && !HasLocalSteps(job)) return Source::kRank;
  return AppliesOnNodes(job) ? Source::kNorms : Source::kChunks;
}

NamedTensors::NamedTensors(const proto::JobRecord& record, bool with_optimizer)
    : record_(record),
      source_(SourceOf(record.job())),
      weights_(source_ == Source::kRank ? 0 : record.layout().elements()),
      with_optimizer_(with_optimizer),
      kept_(ProgramHasWeights("and its checkpoints have no state of its ranks: let it save them")) {
  const proto::Job& job = record.job();
  if (!record.view().nodes().empty()) node_ = record.view().nodes(0).node();
  for (const auto& node : record.view().nodes()) node_ = std::min(node_, node.node());
  needs_node_ = source_ == Source::kNorms;
  if (!with_optimizer || source_ == Source::kRank) return;
  if (HasLocalSteps(job)) {
    shared_ = std::make_unique<State>(MakeState("outer", OuterOptimizer(job)));
    own_ = std::make_unique<State>(MakeState("optimizer", job.optimizer()));
    needs_node_ = !own_->vectors.empty();
  } else if (source_ == Source::kNorms) {
    own_ = std::make_unique<State>(MakeState("optimizer", job.optimizer()));
  } else {
    shared_ = std::make_unique<State>(MakeState("optimizer", job.optimizer()));
  }
}

NamedTensors::State NamedTensors::MakeState(const std::string& room,
                                            const proto::Optimizer& optimizer) const {
  State state = {.room = room, .names = NamesOf(optimizer)};
  state.vectors.assign(state.names.vectors.size(), std::vector<float>(weights_.size()));
  return state;
}

ObjectTaker NamedTensors::MakeTaker() {
  return {.on_chunk = [this](const ChunkImage& image) { TakeChunk(image); },
          .on_node = [this](const NodeImage& image) { TakeNode(image); },
          .on_rank = [this](const RankImage& image) { TakeRank(image); }};
}

void NamedTensors::TakeChunk(const ChunkImage& image) {
  if (source_ == Source::kChunks) CopyTo(&weights_, image.begin, image.weights.weights);
  if (shared_ != nullptr) CopyState(image.begin, image.weights, shared_.get());
}

void NamedTensors::TakeNode(const NodeImage& image) {
  if (image.node != node_) return;
  has_node_ = true;
  for (const NodeChunkImage& chunk : image.chunks) {
    if (source_ == Source::kNorms && chunk.norms) {
      CopyTo(&weights_, chunk.begin, chunk.norms->weights);
      if (own_ != nullptr) CopyState(chunk.begin, *chunk.norms, own_.get());
    } else if (own_ != nullptr && chunk.local) {
      CopyState(chunk.begin, chunk.local->own, own_.get());
    }
  }
}

void NamedTensors::TakeRank(const RankImage& image) {
  if (source_ == Source::kRank && image.rank == 0) kept_ = WeightsInState(image.state);
}

void NamedTensors::CopyState(uint64_t begin, const WeightImage& image, State* state) {
  state->ranges.push_back({begin, begin + image.weights.float_count(), image.updates});
  for (size_t i = 0; i < state->vectors.size(); ++i) {
    CopyTo(&state->vectors[i], begin, image.state[i], state->names.vectors[i]);
  }
  if (image.missed.empty() || state->vectors.empty()) return;
  state->missed.resize(state->vectors[0].size());
  std::copy_n(image.missed.floats(), image.missed.float_count(), state->missed.begin() + begin);
}

absl::StatusOr<std::vector<TensorToSave>> NamedTensors::TensorsOfRank() {
  if (!kept_.ok()) return kept_.status();
  std::vector<TensorToSave> tensors;
  for (const SavedTensor& tensor : *kept_) {
    tensors.push_back({.name = tensor.name, .shape = tensor.shape, .values = tensor.values});
  }
  notes_.emplace_back("parameters and buffers are those of rank 0");
  if (with_optimizer_) {
    notes_.emplace_back("the program has an optimizer of its own, whose state is not exported");
  }
  if (absl::Status differ = CheckNamesDiffer(tensors); !differ.ok()) return differ;
  return tensors;
}

absl::StatusOr<std::vector<TensorToSave>> NamedTensors::Tensors() {
  if (source_ == Source::kRank) return TensorsOfRank();
  if (needs_node_ && !has_node_) {
    return absl::InvalidArgumentError(
        absl::StrCat(source_ == Source::kNorms ? "the job's nodes have its weights"
                                               : "the job's nodes have the state of its optimizer",
                     ", and the checkpoint has no object of node ", node_));
  }
  std::vector<TensorToSave> tensors;
  const proto::Layout& layout = record_.layout();
  for (int i = 0; i < layout.segments_size(); ++i) {
    const proto::Segment& segment = layout.segments(i);
    if (IsMark(segment.name())) continue;
    tensors.push_back({.name = segment.name(),
                       .shape = {segment.shape().begin(), segment.shape().end()},
                       .values = absl::MakeConstSpan(weights_).subspan(
                           segment.offset(), EndOf(layout, i) - segment.offset())});
  }
  for (State* state : {shared_.get(), own_.get()}) {
    if (state == nullptr) continue;
    AddState(state, &tensors);
    Note(*state);
  }
  if (absl::Status differ = CheckNamesDiffer(tensors); !differ.ok()) return differ;
  return tensors;
}

uint64_t NamedTensors::StepOf(const State& state, int segment) const {
  const uint64_t begin = record_.layout().segments(segment).offset();
  const uint64_t end = EndOf(record_.layout(), segment);
  uint64_t least = UINT64_MAX;
  for (const State::Range& range : state.ranges) {
    if (range.begin < end && begin < range.end) least = std::min(least, range.updates);
  }
  // A tensor has missed what its elements have: ranks give all of them or none.
  if (state.missed.empty() || begin == end) return least;
  return least - std::min(least, static_cast<uint64_t>(state.missed[begin]));
}

void NamedTensors::AddState(State* state, std::vector<TensorToSave>* tensors) {
  const proto::Layout& layout = record_.layout();
  state->steps.reserve(layout.segments_size());
  for (int i = 0; i < layout.segments_size(); ++i) {
    const proto::Segment& segment = layout.segments(i);
    if (segment.averaged() || IsMark(segment.name())) continue;
    const auto name = [&](const std::string& of) {
      return absl::StrCat(state->room, "/", of, "/", segment.name());
    };
    for (size_t v = 0; v < state->vectors.size(); ++v) {
      tensors->push_back(
          {.name = name(state->names.vectors[v].name),
           .shape = {segment.shape().begin(), segment.shape().end()},
           .values = absl::MakeConstSpan(state->vectors[v])
                         .subspan(segment.offset(), EndOf(layout, i) - segment.offset())});
    }
    if (!state->names.has_step) continue;
    state->steps.push_back(static_cast<float>(StepOf(*state, i)));
    tensors->push_back({.name = name("step"),
                        .shape = {},
                        .values = absl::MakeConstSpan(&state->steps.back(), 1)});
  }
}

void NamedTensors::Note(const State& state) {
  const proto::Job& job = record_.job();
  if (&state == own_.get() && job.optimizer().has_mean()) {
    notes_.push_back("the program has an optimizer of its own, whose state is in no checkpoint");
    return;
  }
  if (state.vectors.empty()) {
    notes_.push_back(absl::StrCat(state.names.optimizer, " keeps no state"));
    return;
  }
  if (&state == own_.get() && NodesMakeLocalSteps(job)) {
    notes_.push_back(
        absl::StrCat("each node has an optimizer of its own: optimizer/ is that of node ", node_));
  }
  const bool differ = std::any_of(
      state.ranges.begin(), state.ranges.end(),
      [&](const State::Range& range) { return range.updates != state.ranges.front().updates; });
  if (state.names.has_step && differ) {
    notes_.push_back("parts of the model have had different counts of updates: step is the least");
  }
}

}  // namespace strata::cli
