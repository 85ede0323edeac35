#include "tests/sim/cluster/rows_job.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/image/chunk_image.h"
#include "common/image/rows_image.h"
#include "common/job/job.h"
#include "common/random.h"
#include "kernels/kernels.h"
#include "rows/row_key.h"
#include "rows/table_spec.h"
#include "server/shard/shard_core.h"
#include "server/testing/shard_harness.h"
#include "worker/exchange/server/rows_core.h"

namespace strata::sim {
namespace {

using server::ImageOf;
using server::ShardAction;
using transport::ConnectionId;
using worker::CoreActions;
using worker::LinkEvent;
using worker::RowsCore;

constexpr uint32_t kRowNodes = 4, kRowShards = 2, kRowShardsMax = 3, kRowBuckets = 8, kRowIds = 40;
constexpr uint64_t kClocksOfCut = 2;  // between checkpoints
constexpr uint64_t kPieceBytes = 96;  // some four rows
constexpr uint64_t kRowSteps = 16;
// Invariants.
constexpr char kOnce[] = "rows count exactly once";
constexpr char kBitsOfSync[] = "rows have the bits of sync";
constexpr uint32_t kBatch = 4;  // the samples of a rank, as its job says

// `is_own`: rows have the mode, and the rest of the model is in sync.
proto::JobRecord RecordWithTable(const std::string& mode, bool is_own, uint32_t lookahead,
                                 float initial, bool is_cut, uint32_t shards) {
  server::JobOptions options;
  options.ranks.assign(kRowNodes, 1);
  options.elements = 2;
  options.chunk_elements = 1;
  options.shards = shards;
  const std::string of_rows = is_own ? absl::StrCat("consistency { ", mode, " }") : "";
  options.job_text = absl::StrCat("optimizer { sgd {} } consistency { ", is_own ? "sync {}" : mode,
                                  " } rows { lookahead: ", lookahead, " ", of_rows, " }");
  if (is_cut) {
    absl::StrAppend(&options.job_text, " checkpoint { dir: \"/c\" every_steps: ", kClocksOfCut,
                    " }");
  }
  proto::JobRecord record = server::MakeRecord(options);
  *record.mutable_layout()->add_tables() =
      rows::ToProto({.name = "items",
                     .columns = 1,
                     .capacity = 1000,
                     .seed = 3,
                     .initial = {.kind = rows::InitialValues::Kind::kConstant, .scale = initial},
                     .optimizer = {.kind = rows::RowOptimizerKind::kSgd}});
  for (uint32_t bucket = 0; bucket < kRowBuckets; ++bucket) {
    record.mutable_placement()->add_shard_of_bucket(bucket % shards);
  }
  return record;
}

class RowsWorld {
 public:
  RowsWorld(const std::string& mode, uint64_t seed)
      : seed_(seed),
        is_sync_(mode == "sync {}"),
        is_async_(mode == "async {}"),
        is_on_arrival_(mode.find("ON_ARRIVAL") != std::string::npos),
        bound_(mode.find("staleness: 2") != std::string::npos ? 2 : 1),
        lookahead_(is_sync_ ? 1 : 1 + seed / 6 % 3),
        initial_(is_sync_ ? 0.5f : 4096.0f),
        mode_(mode),
        turns_of_write_(40 << seed % 3) {
    deaths_left_ = seed % 4 == 1 ? 1 : seed % 4 == 3 ? 2 : 0;
    is_cut_ = deaths_left_ > 0;
    Begin(kRowShards, nullptr);
  }

  // Runs the job to its end, or to the first violation.
  RowsOutcome Run() {
    for (uint64_t turns = 0; !AllDone() && outcome_.violation.empty(); ++turns) {
      if (turns == 2000000) Violate("progress: the job does not end");
      const auto n = static_cast<uint32_t>(Draw(kRowNodes));
      if (deaths_left_ > 0 && Draw(NewestWhole() == nullptr ? 3000 : 400) == 0) {
        Die();
      } else if (!unwritten_.empty() && Draw(turns_of_write_) == 0) {
        WritePiece();
      } else if (Draw(400) == 0) {
        Break(static_cast<size_t>(Draw(lines_.size())));
      } else if (Draw(20) == 0) {
        PassTime();
      } else if (Draw(4) == 0) {
        Advance(n);
      } else {
        Deliver();
      }
    }
    if (outcome_.violation.empty()) Check();
    CountPrefetched();
    return outcome_;
  }

 private:
  // A checkpoint: the rows of all shards at a clock.
  struct Saved {
    std::vector<RowsImage> rows;
    uint32_t whole = 0;  // shards whose last piece is there
    uint32_t shards = 0;
  };

  // Begins all processes, from a checkpoint if there is one.
  void Begin(uint32_t shards, const std::pair<const uint64_t, Saved>* from) {
    record_ = RecordWithTable(mode_, seed_ % 5 == 0, static_cast<uint32_t>(lookahead_), initial_,
                              is_cut_, shards);
    const uint64_t clock = from == nullptr ? 0 : from->first;
    if (from != nullptr) {
      record_.mutable_resume()->set_dir("/c");
      record_.mutable_resume()->set_clock(clock);
    }
    for (uint32_t s = 0; s < shards; ++s) {
      shards_.push_back(std::make_unique<server::ShardCore>(kernels::Cpu()));
      shards_[s]->set_row_piece(kPieceBytes);
      Expect(shards_[s]->BeginInstall(record_, ShardId(s)).status());
      if (from != nullptr) Restore(*shards_[s], *from);
    }
    for (uint32_t n = 0; n < kRowNodes; ++n) {
      worker::CoreOptions options;
      options.record = record_;
      options.node = NodeId(n);
      options.incarnation = 1;
      options.timing.give_up_after = absl::InfiniteDuration();
      nodes_.push_back({.core = *RowsCore::Create(options), .step = clock});
      Tell(n, LinkEvent::Start());
    }
  }
  void Restore(server::ShardCore& shard, const std::pair<const uint64_t, Saved>& from) {
    std::vector<ChunkImage> chunks;
    for (uint32_t chunk = 0; chunk < 2; ++chunk) {
      chunks.push_back({.begin = chunk, .clock = from.first});
      chunks.back().weights.weights = server::ToBytes({0});
    }
    Expect(shard.InstallMore(JobId(7), chunks));
    for (const RowsImage& rows : from.second.rows) Expect(shard.InstallMore(JobId(7), rows));
    Expect(shard.EndInstall(JobId(7)));
  }

  // All processes die. The new ones load the newest whole checkpoint, or start from nothing.
  void Die() {
    --deaths_left_;
    CountPrefetched();
    const std::pair<const uint64_t, Saved>* const from = NewestWhole();
    outcome_.goes_on += from != nullptr;
    Forget(from);
    // Objects that were being written are lost.
    unwritten_.clear();
    const uint64_t clock = from == nullptr ? 0 : from->first;
    std::erase_if(saved_, [&](const auto& saved) { return saved.first > clock; });
    lines_.clear();
    nodes_.clear();
    shards_.clear();
    has_died_ = true;
    Begin(1 + static_cast<uint32_t>(Draw(kRowShardsMax)), from);
  }
  const std::pair<const uint64_t, Saved>* NewestWhole() const {
    const std::pair<const uint64_t, Saved>* newest = nullptr;
    for (const auto& saved : saved_) {
      if (saved.second.whole == saved.second.shards) newest = &saved;
    }
    return newest;
  }
  // Forgets what nodes have pushed and the checkpoint has not.
  void Forget(const std::pair<const uint64_t, Saved>* from) {
    applied_.clear();
    for (uint32_t bucket = 0; from != nullptr && bucket < kRowBuckets; ++bucket) {
      applied_[bucket].assign(kRowNodes, from->first);
    }
    for (const RowsImage& rows : from == nullptr ? std::vector<RowsImage>() : from->second.rows) {
      for (const BucketImage& part : rows.parts) {
        if (!part.applied.empty()) applied_[part.bucket] = part.applied;
      }
    }
    for (auto& [key, of_node] : pushed_) {
      const auto& [clock, id] = key;
      std::erase_if(of_node, [&, clock = clock, id = id](const auto& one) {
        return !IsApplied(id, one.first, clock);
      });
    }
    std::erase_if(pushed_, [](const auto& pushed) { return pushed.second.empty(); });
  }
  // Returns whether the checkpoint that the job goes on from has a node's push.
  bool IsApplied(uint64_t id, uint32_t node, uint64_t clock) {
    const auto found = applied_.find(static_cast<uint32_t>(BucketOfId(id)));
    return found != applied_.end() && clock < found->second[node];
  }
  static uint64_t BucketOfId(uint64_t id) { return rows::HighBits(rows::HashOf(3, id), 3); }

  void CollectPieces(uint32_t shard) {
    for (server::ShardRowsPiece& piece : shards_[shard]->TakeRowPieces()) {
      if (piece.problem.empty()) unwritten_.push_back(std::move(piece));
    }
  }
  void WritePiece() {
    server::ShardRowsPiece piece = std::move(unwritten_.front());
    unwritten_.pop_front();
    const ImageFile file = MakeRowsImageFile(ImageOf(piece, *piece.tables));
    std::string text;
    for (const absl::Span<const char> part : file.Pieces()) text.append(part.data(), part.size());
    const auto content = std::make_shared<const std::string>(std::move(text));
    absl::StatusOr<RowsImage> rows = ParseRowsImageFile(
        Bytes(content, reinterpret_cast<const std::byte*>(content->data()), content->size()), "r");
    Expect(rows.status());
    if (!rows.ok()) return;
    Saved& saved = saved_[piece.clock];
    saved.shards = static_cast<uint32_t>(shards_.size());
    saved.whole += piece.is_last;
    saved.rows.push_back(*std::move(rows));
    const uint32_t shard = piece.shard.value();
    shards_[shard]->ReleaseRows(JobId(7), piece.shard);
    CollectPieces(shard);
  }
  void CountPrefetched() {
    for (const Node& node : nodes_) outcome_.prefetched += node.core->prefetched();
  }

  struct Line {
    uint32_t node = 0, shard = 0;
    bool is_up = true;
    std::deque<wire::Frame> to_shard, to_node;
  };
  struct Node {
    std::unique_ptr<RowsCore> core;
    enum class Does { kLooksUp, kWaits, kPushes, kRetires, kIsDone } does = Does::kLooksUp;
    uint64_t step = 0;
    std::vector<uint64_t> ids;                             // of the step
    std::map<uint64_t, std::vector<uint64_t>> later = {};  // of later ones, if they are drawn
  };

  void Violate(const std::string& what) {
    if (outcome_.violation.empty()) outcome_.violation = what;
  }
  void Expect(const absl::Status& status) {
    if (!status.ok()) Violate(absl::StrCat("rows fail: ", status.message()));
  }

  uint64_t Draw(uint64_t below) { return RandomBelow(seed_, ++draws_, below); }

  void Tell(uint32_t n, const LinkEvent& event) {
    CoreActions actions;
    Expect(nodes_[n].core->OnLinkEvent(event, now_, &actions));
    Perform(n, std::move(actions));
  }
  void Perform(uint32_t n, CoreActions actions) {
    for (WireAction& action : actions.wire) {
      if (action.kind == WireAction::Kind::kConnect) {
        const std::string& address = nodes_[n].core->address(action.link);
        const uint32_t shard = address.back() - '0';
        lines_.push_back({.node = n, .shard = shard});
        Tell(n, LinkEvent::Connected(action.link, ConnectionId(lines_.size())));
      } else if (action.kind == WireAction::Kind::kSend) {
        Line& line = lines_[action.connection.value() - 1];
        if (line.is_up) line.to_shard.push_back(std::move(action.frame));
      } else if (action.kind == WireAction::Kind::kClose) {
        Break(action.connection.value() - 1);
      }
    }
  }
  void Break(size_t index) {
    if (index >= lines_.size() || !lines_[index].is_up) return;
    lines_[index].is_up = false;
    ++outcome_.breaks;
    lines_[index].to_shard.clear();
    lines_[index].to_node.clear();
    const ConnectionId connection(index + 1);
    std::vector<ShardAction> actions;
    const absl::Status why = absl::UnavailableError("broken");
    shards_[lines_[index].shard]->OnDisconnected(connection, why, now_, &actions);
    Tell(lines_[index].node, LinkEvent::Lost(connection, why));
  }
  void Deliver() {
    std::vector<size_t> busy;
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (!lines_[i].to_shard.empty() || !lines_[i].to_node.empty()) busy.push_back(i);
    }
    if (busy.empty()) return PassTime();
    const size_t index = busy[Draw(busy.size())];
    const ConnectionId connection(index + 1);
    if (lines_[index].to_node.empty() || (!lines_[index].to_shard.empty() && Draw(2) == 0)) {
      wire::Frame frame = std::move(lines_[index].to_shard.front());
      lines_[index].to_shard.pop_front();
      std::vector<ShardAction> actions;
      shards_[lines_[index].shard]->OnFrame(connection, std::move(frame), now_, &actions);
      CollectPieces(lines_[index].shard);
      for (ShardAction& action : actions) {
        if (action.kind != ShardAction::Kind::kSend) continue;
        Line& line = lines_[action.connection.value() - 1];
        if (action.frame.header.op == wire::Op::kError) {
          Violate("rows fail: " + wire::Describe(action.frame.header));
        }
        if (line.is_up) line.to_node.push_back(std::move(action.frame));
      }
      return;
    }
    const wire::Frame frame = std::move(lines_[index].to_node.front());
    lines_[index].to_node.pop_front();
    Tell(lines_[index].node, LinkEvent::Frame(connection, frame));
  }
  void PassTime() {
    now_ += absl::Milliseconds(static_cast<int64_t>(10 + Draw(6000)));
    for (uint32_t n = 0; n < kRowNodes; ++n) Tell(n, LinkEvent::Time());
  }

  // Returns some ids, each with a chance of one in `of`; ascending.
  std::vector<uint64_t> DrawIds(uint64_t of) {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < kRowIds; ++id) {
      if (Draw(of) == 0) ids.push_back(id);
    }
    return ids;
  }
  // The ids of a step: many, or few.
  std::vector<uint64_t> DrawStep() { return DrawIds(Draw(3) == 0 ? 20 : 4); }
  // Lets the node go on, if it can.
  void Advance(uint32_t n) {
    Node& node = nodes_[n];
    CoreActions actions;
    switch (node.does) {
      case Node::Does::kLooksUp:
        if (node.step >= StepsOf(n)) {
          if (node.core->is_pushing()) return;
          node.does = Node::Does::kRetires;
          node.core->Finish(now_, &actions);
          break;
        }
        node.ids = node.later.contains(node.step) ? node.later[node.step] : DrawStep();
        node.does = Node::Does::kWaits;
        node.core->LookUp(0, 0, node.ids, /*of_step=*/true, now_, &actions);
        break;
      case Node::Does::kWaits:
        Take(&node);
        break;
      case Node::Does::kPushes: {
        if (node.core->is_pushing()) return;
        // In sync values are rounded, so that the order of additions shows; else sums are exact.
        const float sum =
            is_sync_ ? 0.1f * static_cast<float>(1 + Draw(1000)) : static_cast<float>(1 + n);
        const std::vector<float> sums(node.ids.size(), sum);
        for (const uint64_t id : node.ids) {
          // A gradient that the checkpoint already has counts once, so this one does not.
          if (!IsApplied(id, n, node.step)) pushed_[{node.step, id}][n] = sum;
        }
        std::vector<wire::RowsSection> pushed;
        if (!node.ids.empty()) {
          pushed.push_back({.table = 0, .rate = 1.0f, .ids = node.ids, .values = sums.data()});
        }
        // Half of the steps have a later one's rows fetched, and some that nobody looks up.
        std::vector<wire::RowsSection> wanted;
        std::vector<uint64_t> more;
        if (Draw(2) == 0) {
          const std::vector<uint64_t>& later = node.later[node.step + lookahead_] = DrawStep();
          const std::vector<uint64_t> others = DrawIds(Draw(2) == 0 ? 8 : 2);
          std::set_union(later.begin(), later.end(), others.begin(), others.end(),
                         std::back_inserter(more));
          if (!more.empty()) wanted.push_back({.table = 0, .ids = more});
        }
        Expect(node.core->Push(pushed, wanted, Samples(), now_, &actions));
        ++node.step;
        node.does = Node::Does::kLooksUp;
        break;
      }
      case Node::Does::kRetires:
        if (node.core->is_finished()) node.does = Node::Does::kIsDone;
        break;
      case Node::Does::kIsDone:
        break;
    }
    Perform(n, std::move(actions));
  }
  uint32_t Samples() const { return is_sync_ ? 3 : is_on_arrival_ ? kBatch : 1; }
  // Returns how much a gradient changes its row in a mode other than sync.
  float Counted(float sum) const {
    if (is_async_) return sum;
    return is_on_arrival_ ? sum / kBatch / kRowNodes : sum / kRowNodes;
  }
  // One node may make fewer steps, where the model knows what its pushes count.
  uint64_t StepsOf(uint32_t n) const {
    return (is_sync_ || is_async_) && n == seed_ % (2 * kRowNodes) ? kRowSteps / 2 : kRowSteps;
  }
  // A row in sync after the clocks before `step`.
  float Expected(uint64_t id, uint64_t step) const {
    float weight = initial_;
    for (uint64_t clock = 0; clock < step; ++clock) {
      const auto pushed = pushed_.find({clock, id});
      if (pushed == pushed_.end()) continue;
      const std::optional<float> sum = Sum(pushed->second, 0, kRowNodes);
      uint32_t samples = 0;
      for (uint32_t n = 0; n < kRowNodes; ++n) samples += clock < StepsOf(n) ? Samples() : 0;
      weight -= *sum * static_cast<float>(1.0 / samples);
    }
    return weight;
  }
  static std::optional<float> Sum(const std::map<uint32_t, float>& of_node, uint32_t begin,
                                  uint32_t end) {
    if (end - begin == 1) {
      const auto found = of_node.find(begin);
      return found == of_node.end() ? std::nullopt : std::optional(found->second);
    }
    const uint32_t middle = begin + static_cast<uint32_t>(kernels::SumTreeSplit(end - begin));
    const auto left = Sum(of_node, begin, middle), right = Sum(of_node, middle, end);
    if (!left || !right) return left ? left : right;
    return *left + *right;
  }
  // A row that a node finds has all of its own pushes, or all but those since it was fetched, and
  // at most those of all nodes.
  void Take(Node* node) {
    const auto number = static_cast<uint32_t>(node - nodes_.data());
    for (const RowsCore::Found& found : node->core->TakeFound()) {
      for (size_t i = 0; i < found.places.size(); ++i) {
        const uint64_t id = node->ids[found.places[i]];
        const float weight = found.weights.floats()[i];
        ++outcome_.looked_up;
        if (is_sync_) {
          if (weight != Expected(id, node->step)) Differs(kBitsOfSync, id);
          continue;
        }
        const float most = All(id);
        float own = 0;
        for (uint64_t clock = 0; is_async_ && clock + lookahead_ <= node->step; ++clock) {
          for (const auto& [other, sum] : pushed_[{clock, id}]) own += other == number ? sum : 0;
        }
        if (weight > initial_ - own) Differs("a node sees its own rows", id);
        // A lazy node that has pushed t clocks has been answered once all have pushed t - s.
        const uint64_t oldest = bound_ + lookahead_ - 1;
        float least = 0;
        for (uint64_t clock = 0; !is_async_ && clock + oldest < node->step; ++clock) {
          for (const auto& [other, sum] : pushed_[{clock, id}]) least += Counted(sum);
        }
        if (weight > initial_ - least) Differs("rows are at most s clocks old", id);
        if (weight < initial_ - most) Differs(kOnce, id);
      }
      if (found.is_last) node->does = Node::Does::kPushes;
    }
  }
  // Returns what all pushes to a row add up to, in a mode other than sync.
  float All(uint64_t id) const {
    float all = 0;
    for (uint64_t clock = 0; clock < kRowSteps; ++clock) {
      const auto pushed = pushed_.find({clock, id});
      if (pushed == pushed_.end()) continue;
      for (const auto& [node, sum] : pushed->second) all += Counted(sum);
    }
    return all;
  }
  void Differs(const std::string& invariant, uint64_t id) {
    Violate(absl::StrFormat("%s: row %d differs", invariant, id));
  }
  bool AllDone() const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const Node& node) { return node.does == Node::Does::kIsDone; });
  }

  void Check() {
    uint64_t pushes = 0;
    for (const auto& shard : shards_) pushes += shard->Counters().at(JobId(7)).pushes;
    uint64_t expected = 0;
    for (uint32_t n = 0; n < kRowNodes; ++n) expected += StepsOf(n) * kRowBuckets;
    if (!has_died_ && pushes != expected) {
      Violate(absl::StrFormat("%s: %d pushes counted", kOnce, pushes));
    }
    // A node that has come back reads the final rows.
    for (uint64_t id = 0; id < kRowIds; ++id) {
      const auto place = static_cast<uint32_t>(BucketOfId(id) % shards_.size());
      server::ShardCore& shard = *shards_[place];
      const ConnectionId connection(lines_.size() + 1);
      std::vector<ShardAction> actions;
      shard.OnFrame(connection, server::HelloFrame(record_, 0, 2, /*connection=*/1, place), now_,
                    &actions);
      wire::Frame lookup = server::ControlFrame(record_, wire::Op::kLookup, 0, 0, 1);
      lookup.header.key_space = wire::KeySpace::kRows;
      lookup.header.incarnation = 2;
      lookup.payload = wire::EncodeRows({}, {{.table = 0, .ids = {&id, 1}}}, {{1}});
      actions.clear();
      shard.OnFrame(connection, lookup, now_, &actions);
      if (actions.size() != 1 || actions[0].frame.header.op != wire::Op::kRows) {
        return Violate("rows fail: a lookup is not answered");
      }
      const float expected = is_sync_ ? Expected(id, kRowSteps) : initial_ - All(id);
      if (actions[0].frame.payload.floats()[0] != expected) {
        Differs(is_sync_ ? kBitsOfSync : kOnce, id);
      }
    }
  }

  RowsOutcome outcome_;
  const uint64_t seed_;
  const bool is_sync_, is_async_, is_on_arrival_;
  const uint64_t bound_;  // lazy: the clocks that a node may be ahead
  const uint64_t lookahead_;
  // The initial weight. It is small in sync, where each bit of a sum must show, and large
  // elsewhere, where sums are exact.
  const float initial_;
  const std::string mode_;
  const uint64_t turns_of_write_;  // of which one writes a piece
  proto::JobRecord record_;
  uint64_t draws_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<std::unique_ptr<server::ShardCore>> shards_;
  std::vector<Node> nodes_;
  std::deque<Line> lines_;
  // The gradients that nodes have pushed, by clock and id, and by node.
  std::map<std::pair<uint64_t, uint64_t>, std::map<uint32_t, float>> pushed_;
  // Deaths of all processes, and the checkpoints for them.
  bool is_cut_ = false, has_died_ = false;
  uint32_t deaths_left_ = 0;
  std::deque<server::ShardRowsPiece> unwritten_;
  std::map<uint64_t, Saved> saved_;
  // By bucket, and by node: the pushes in the checkpoint that the job goes on from.
  std::map<uint32_t, std::vector<uint64_t>> applied_;
};

}  // namespace

RowsOutcome RunRowsJob(uint64_t seed) {
  constexpr const char* kModes[] = {"async {}",
                                    "sync {}",
                                    "async {}",
                                    "sync {}",
                                    "lazy { staleness: 1 }",
                                    "lazy { staleness: 2 apply: ON_ARRIVAL }"};
  return RowsWorld(kModes[seed % std::size(kModes)], seed).Run();
}

}  // namespace strata::sim
