// What a node may say, what it is told, and over which connections.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "tests/sim/check/checker.h"

namespace strata::sim {
namespace {

using server::ShardAction;
using transport::ConnectionId;

// A shard may forget some of a node's connections, but none of so many newest.
constexpr size_t kNewest = 2;

}  // namespace

// Every server is a host of its own with the same link: each has the same share of the chunks, its
// shards as much of that each, as nearly as whole chunks allow.
void JobChecker::CheckPlacement() {
  std::map<std::string, int> shards_of_host;
  const auto host_of = [](const std::string& endpoint) {
    return endpoint.substr(0, endpoint.rfind(':'));
  };
  const auto& endpoints = record_.placement().shard_endpoints();
  for (const std::string& endpoint : endpoints) ++shards_of_host[host_of(endpoint)];
  for (int s = 0; s < endpoints.size(); ++s) {
    const double share = static_cast<double>(chunks_.size()) /
                         static_cast<double>(shards_of_host.size()) /
                         shards_of_host[host_of(endpoints[s])];
    if (std::abs(static_cast<double>(chunks_on_[s]) - share) < 1) continue;
    Violate("chunks lie where they should",
            absl::StrFormat("%d chunks on shard %d, whose share is %g", chunks_on_[s], s, share));
  }
}

void CheckedPeer::MoveToBack(ConnectionId connection) {
  open.erase(std::remove(open.begin(), open.end(), connection), open.end());
  open.push_back(connection);
}

// A process that has been replaced is not heard any more.
void JobChecker::CheckSender(uint32_t shard, ConnectionId connection, const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  std::vector<Peer>& lines = peers_[shard][header.node];
  if (header.incarnation < lines[0].incarnation) {
    return Violate("only the newest process is heard",
                   absl::StrFormat("shard %d took %s, the newest is %d", shard,
                                   wire::Describe(header), lines[0].incarnation));
  }
  if (header.incarnation > lines[0].incarnation) {
    std::fill(lines.begin(), lines.end(), Peer{.incarnation = header.incarnation});
  }
  if (header.op == wire::Op::kHello) {
    wire::Hello hello;
    const absl::Span<const std::byte> bytes(frame.payload.data(), frame.payload.size());
    if (wire::DecodeHello(bytes, &hello).ok() && hello.connection < lines.size()) {
      copies_[shard].node_of[connection] = header.node;
      return lines[hello.connection].MoveToBack(connection);
    }
    return Violate("a node has the connections of its job",
                   absl::StrFormat("shard %d took %s", shard, wire::Describe(header)));
  }
  Peer& peer = header.op == wire::Op::kRetire ? lines[0] : PeerOf(header.node, header.chunk);
  peer.speaks_on = connection;
  if (std::find(peer.open.begin(), peer.open.end(), connection) != peer.open.end()) return;
  Violate("HELLO comes first", absl::StrFormat("shard %d took %s", shard, wire::Describe(header)));
}

// Whether answers must reach the node's process: it speaks on a connection that is still there.
bool JobChecker::IsOwed(const Peer& peer) const {
  const size_t newest = std::min(kNewest, peer.open.size());
  return std::find(peer.open.end() - newest, peer.open.end(), peer.speaks_on) != peer.open.end();
}

// In the very step in which it is due: a node that has to ask again would hide that it was not.
void JobChecker::CheckSent(wire::Op op, uint32_t node, uint32_t c, uint64_t clock,
                           const std::vector<ShardAction>& actions) {
  if (nobody_is_answered_ || copies_[chunks_[c].shard].stands_still) return;
  if (!IsOwed(PeerOf(node, c))) return;
  const bool is_there = std::any_of(actions.begin(), actions.end(), [&](const ShardAction& action) {
    const wire::Header& answer = action.frame.header;
    return answer.op == op && answer.node == node && answer.chunk == c && answer.clock == clock;
  });
  if (is_there) return;
  const char* const to = op == wire::Op::kAnswer ? "push" : "CUT";
  Violate("due answers are sent",
          absl::StrFormat("node %d chunk %d: none to %s %d", node, c, to, clock), /*goes_on=*/true);
}

// To the connection that the node speaks on; copies may go to others of the same process.
void JobChecker::CheckReceiver(const ShardAction& answer, const std::vector<ShardAction>& actions) {
  const wire::Header& header = answer.frame.header;
  if (header.node >= nodes_ || header.chunk >= chunks_.size()) return;
  const Peer& peer = PeerOf(header.node, header.chunk);
  if (answer.connection == peer.speaks_on) return;
  const auto open = std::find(peer.open.begin(), peer.open.end(), answer.connection);
  const bool is_there = std::any_of(actions.begin(), actions.end(), [&](const ShardAction& other) {
    const wire::Header& copy = other.frame.header;
    return other.connection == peer.speaks_on && copy.op == header.op && copy.node == header.node &&
           copy.chunk == header.chunk && copy.clock == header.clock;
  });
  if (open != peer.open.end() && (is_there || !IsOwed(peer))) return;
  Violate("answers go where the node speaks", wire::Describe(header));
}

bool JobChecker::IsNewest(const wire::Header& push) const {
  const Chunk& chunk = chunks_[push.chunk];
  if (copies_[chunk.shard].has_backup) return false;  // nobody but the primary knows
  return chunk.received[push.node] == push.clock + 1 && chunk.taken_over[push.node] <= push.clock &&
         chunk.pushed_by[push.node] == push.incarnation;
}

void JobChecker::OnDisconnected(const Copy& copy, ConnectionId connection) {
  for (std::vector<Peer>& lines : peers_[copy.shard]) {
    for (Peer& peer : lines) std::erase(peer.open, connection);
  }
}

// A process that has taken another one's place may be given newer ones.
void JobChecker::OnBegin(uint32_t node, uint32_t incarnation, ChunkId chunk,
                         const std::vector<float>& weights) {
  const auto elements = static_cast<uint32_t>(weights.size());
  if (incarnation != processes_[node].incarnation) return;
  const uint64_t clock = processes_[node].first_clock;
  // Who begins again after its last step makes none.
  if (plan_.is_elastic() && !views_.Has(NodeId(node), clock)) return;
  if (plan_.is_elastic() && clock > 0 && is_exact()) {
    const auto past = chunks_[chunk.value()].past.find(clock);
    const bool is_right =
        past != chunks_[chunk.value()].past.end() && past->second.weights == weights;
    if (is_right) return;
    return Violate("who joins begins with the weights of its clock",
                   absl::StrFormat("node %d chunk %d clock %d", node, chunk.value(), clock));
  }
  if (incarnation > 1 || clock > 0 || weights == payload_.FirstWeights(chunk, elements)) return;
  Violate("nodes begin with the first weights",
          absl::StrFormat("node %d chunk %d begins with others", node, chunk.value()));
}

void JobChecker::OnNodeStart(uint32_t node, uint32_t incarnation) {
  if (incarnation < processes_[node].incarnation) return;  // it begins late
  if (incarnation > 1) ++restarts_;
  layers_.OnNodeStart(node, incarnation);
  codecs_.OnNodeStart(node, incarnation);
  processes_[node] = {.incarnation = incarnation,
                      .pushed = std::vector<uint64_t>(chunks_.size(), 0),
                      .answered = std::vector<uint64_t>(chunks_.size(), 0),
                      .unanswered = std::vector<uint32_t>(held_.size(), 0)};
}

void JobChecker::OnFirstClock(uint32_t node, uint32_t incarnation, uint64_t clock) {
  Process& process = processes_[node];
  if (process.incarnation != incarnation) return;
  process.first_clock = clock;
  std::fill(process.pushed.begin(), process.pushed.end(), clock);
  std::fill(process.answered.begin(), process.answered.end(), clock);
}

void JobChecker::OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock,
                       uint32_t samples, absl::Span<const float> sum) {
  for (const LayerModel::Push& push :
       layers_.OnSum(node, incarnation, chunk, clock, samples, sum)) {
    codecs_.OnSum(node, incarnation, push.chunk, push.clock, push.samples, push.values);
  }
}

void JobChecker::OnTaken(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock,
                         absl::Span<const float> weights) {
  const std::string wrong = layers_.OnTaken(node, incarnation, chunk, clock, weights);
  if (wrong.empty()) return;
  Violate(layers_.invariant(),
          absl::StrFormat("node %d chunk %d step %d: %s", node, chunk.value(), clock, wrong));
}

void JobChecker::OnPush(uint32_t node, ChunkId id, uint64_t clock) {
  ++pushes_;
  Process& process = processes_[node];
  uint64_t& pushed = process.pushed[id.value()];
  if (clock != pushed || process.answered[id.value()] != pushed) {
    Violate("one push per chunk",
            absl::StrFormat("node %d chunk %d: push %d after %d, answered %d", node, id.value(),
                            clock, pushed, process.answered[id.value()]));
  }
  ++pushed;
  if (plan_.has_layer()) return;  // not what the exchange has in its window
  const uint32_t shard = chunks_[id.value()].shard;
  if (++process.unanswered[shard] <= plan_.window) return;
  Violate("window", absl::StrFormat("node %d has %d unanswered pushes at shard %d, window %d", node,
                                    process.unanswered[shard], shard, plan_.window));
}

void JobChecker::OnWeights(uint32_t node, ChunkId id, uint64_t clock,
                           absl::Span<const float> weights) {
  Process& process = processes_[node];
  Chunk& chunk = chunks_[id.value()];
  uint64_t& answered = process.answered[id.value()];
  if (clock != answered || clock + 1 != process.pushed[id.value()]) {
    return Violate("exactly one delivery",
                   absl::StrFormat("node %d chunk %d: the answer to %d after %d of %d", node,
                                   id.value(), clock, answered, process.pushed[id.value()]));
  }
  ++answered;
  if (!plan_.has_layer()) --process.unanswered[chunk.shard];
  if (!layers_.EndsRound(clock) || layers_.is_own()) return;  // LayerModel knows the weights
  const uint64_t hash = Hash(weights);
  const bool is_first = plan_.double_buffering && clock == 0;
  const uint64_t answer = layers_.RoundOf(clock) - (plan_.double_buffering && !is_first ? 1 : 0);
  if (is_first ? hash != chunk.first_hash : chunk.told[TellingOf(node, answer)].count(hash) == 0) {
    return Violate("answers arrive as they were given",
                   absl::StrFormat("node %d chunk %d clock %d", node, id.value(), clock));
  }
  // Where the gate waits for everyone, the answer is the state after that clock and no other.
  if (!is_exact() || (restarts_ > 0 && !plan_.is_elastic())) return;
  const auto [known, is_new] = chunk.hash_of_clock.emplace(clock, hash);
  if (is_new || known->second == hash) return;
  Violate("G2 order of bits", absl::StrFormat("node %d chunk %d: other weights after clock %d than "
                                              "another node",
                                              node, id.value(), clock));
}

void JobChecker::OnFinalWeights(uint32_t node, ChunkId id, const Bytes& weights) {
  if (!processes_[node].finals.insert(id.value()).second) {
    return Violate("exactly one delivery",
                   absl::StrFormat("node %d chunk %d: final weights twice", node, id.value()));
  }
  if (views_.LeavesAt(NodeId(node)).has_value()) {
    return Violate("who leaves waits for nobody",
                   absl::StrFormat("node %d chunk %d has final weights", node, id.value()));
  }
  const std::string wrong =
      layers_.OnFinal(id, absl::MakeConstSpan(weights.floats(), weights.float_count()));
  if (!wrong.empty()) {
    return Violate(layers_.invariant(),
                   absl::StrFormat("node %d chunk %d: %s", node, id.value(), wrong));
  }
  Chunk& chunk = chunks_[id.value()];
  const uint64_t hash = Hash(weights);
  if (!chunk.final_hash) chunk.final_hash = hash;
  if (*chunk.final_hash == hash) return;
  Violate("one final model",
          absl::StrFormat("node %d chunk %d differs from another node's", node, id.value()));
}

void JobChecker::OnFinished() {
  if (plan_.is_elastic()) return CheckEndOfElastic();
  for (uint32_t n = 0; n < nodes_; ++n) {
    for (uint32_t c = 0; c < chunks_.size(); ++c) {
      const uint64_t answered = processes_[n].answered[c];
      if (answered == plan_.clocks && processes_[n].finals.count(c) == 1) continue;
      return Violate("exactly one delivery",
                     absl::StrFormat("node %d chunk %d: %d answers, not %d, or no final weights", n,
                                     c, answered, plan_.clocks));
    }
  }
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    for (uint32_t n = 0; n < nodes_; ++n) {
      if (chunks_[c].received[n] == layers_.rounds()) continue;
      return Violate("G1 exactly once",
                     absl::StrFormat("chunk %d: %d pushes of node %d, not %d", c,
                                     chunks_[c].received[n], n, layers_.rounds()));
    }
  }
}

uint64_t JobChecker::ModelHash() const {
  uint64_t hash = 1;
  for (const Chunk& chunk : chunks_) hash = hash * 1099511628211 + chunk.final_hash.value_or(0);
  return hash;
}

bool JobChecker::is_reproducible() const { return is_exact() && !plan_.is_elastic(); }

}  // namespace strata::sim
