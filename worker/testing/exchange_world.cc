#include "worker/testing/exchange_world.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using transport::ConnectionId;
using wire::Op;

constexpr int kExchangeEventsMax = 1'000'000;
// Hosts of shards, beyond those of nodes.
constexpr uint32_t kFirstServerHost = 32;

std::vector<float> FloatsOf(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

Bytes BytesOf(std::vector<float> floats) {
  auto owner = std::make_shared<std::vector<float>>(std::move(floats));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

Bytes TextOf(const std::string& text) {
  auto owner = std::make_shared<std::string>(text);
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size());
}

}  // namespace

proto::JobRecord WorldRecord(uint32_t nodes, uint32_t chunks, uint32_t shards, uint32_t window,
                             uint32_t connections) {
  proto::JobRecord record;
  record.set_job_id(3);
  record.mutable_job()->set_connections(connections);
  record.mutable_job()->set_window(window);
  for (uint32_t n = 0; n < nodes; ++n) record.mutable_view()->add_nodes()->set_node(n);
  record.mutable_layout()->set_elements(chunks * kWorldChunkElements - 1);  // a shorter last chunk
  record.mutable_placement()->set_chunk_elements(kWorldChunkElements);
  for (uint32_t s = 0; s < shards; ++s) {
    record.mutable_placement()->add_shard_endpoints(absl::StrCat("tcp://shard", s));
  }
  for (uint32_t c = 0; c < chunks; ++c) record.mutable_placement()->add_shard_of_chunk(c % shards);
  return record;
}

ExchangeWorld::ExchangeWorld(uint64_t seed, const proto::JobRecord& record,
                             const transport::SimFaults& faults, Gradient gradient,
                             float first_weight)
    : record_(record),
      gradient_(std::move(gradient)),
      first_weight_(first_weight),
      loses_frames_(faults.drop > 0),
      network_(seed) {
  network_.set_faults(faults);
  const auto nodes = static_cast<uint32_t>(record.view().nodes_size());
  for (const std::string& address : record.placement().shard_endpoints()) {
    shards_.push_back(std::make_unique<FakeShard>(nodes));
    servers_.push_back(ServerAt(shards_.size() - 1, address));
  }
}

std::unique_ptr<transport::SimEndpoint> ExchangeWorld::ServerAt(size_t shard,
                                                                const std::string& address) {
  transport::SimEndpoint::Options options;
  options.name = absl::StrCat("s", shard);
  options.host = kFirstServerHost + static_cast<uint32_t>(shard);
  options.addresses_are_names = true;
  options.on_ready = [this, shard] { Serve(shard); };
  auto server = std::make_unique<transport::SimEndpoint>(&network_, options);
  EXPECT_TRUE(server->Listen(address).ok());
  return server;
}

void ExchangeWorld::MoveShard(size_t shard, const std::string& address, uint32_t generation,
                              absl::Duration delay) {
  network_.After(delay, [=, this] {
    servers_[shard] = ServerAt(shard, address);
    shards_[shard]->set_generation(generation);
    const ShardMove move{ShardId(static_cast<uint32_t>(shard)), address, generation};
    for (const auto& node : nodes_) {
      const absl::Duration heard =
          network_.random().Between(absl::Microseconds(1), absl::Milliseconds(5));
      network_.After(heard, [&node, move] { node->OnShardMoved(move); });
    }
  });
}

void ExchangeWorld::Serve(size_t shard) {
  transport::SimEndpoint& server = *servers_[shard];
  std::vector<transport::Event> events;
  server.Poll(absl::InfiniteDuration(), &events);
  for (const transport::Event& event : events) {
    if (event.kind != transport::Event::Kind::kFrame) {
      shards_[shard]->OnDisconnected(event.connection);
      continue;
    }
    for (const FakeShard::Reply& reply : shards_[shard]->OnFrame(event.connection, event.frame)) {
      // A reply to a peer that is gone is lost.
      server.Send(reply.connection, reply.frame).IgnoreError();
    }
  }
}

absl::Status ExchangeWorld::Run(uint64_t clocks) {
  for (const proto::LogicalNode& logical : record_.view().nodes()) {
    TrainingNode::Options options;
    options.core.record = record_;
    options.core.node = NodeId(logical.node());
    // HELLO is also lost, again and again.
    if (loses_frames_) options.core.timing.give_up_after = absl::Hours(1);
    options.name = absl::StrCat("n", logical.node());
    options.addresses_are_names = true;
    options.clocks = clocks;
    const uint32_t other = record_.takes_first_weights() ? logical.first_rank() : 0;
    options.first_weight = [this, other](uint64_t) { return first_weight_ + other; };
    options.gradient = [this, node = logical.node()](uint64_t clock, uint64_t) {
      return gradient_(node, clock);
    };
    nodes_.push_back(std::make_unique<TrainingNode>(&network_, std::move(options)));
  }
  for (const auto& node : nodes_) node->Start();
  for (int events = 0; events < kExchangeEventsMax; ++events) {
    bool all_over = true;
    for (const auto& node : nodes_) {
      if (!node->status().ok()) return node->status();
      all_over = all_over && node->is_over();
    }
    if (all_over) return absl::OkStatus();
    if (!network_.RunOne()) break;
  }
  return absl::DeadlineExceededError("the run does not end");
}

void FakeShard::Say(ConnectionId connection, Op op, const wire::Header& request,
                    std::vector<float> weights, uint64_t version, uint64_t received) {
  wire::Frame frame;
  frame.header = request;
  frame.header.op = op;
  frame.header.flags = 0;
  frame.header.version = version;
  frame.header.received = received;
  frame.header.element_count = weights.size();
  frame.payload = BytesOf(std::move(weights));
  frame.header.payload_checksum = wire::Checksum({frame.payload.data(), frame.payload.size()});
  replies_.push_back({connection, std::move(frame)});
}

void FakeShard::Refuse(ConnectionId connection, Op op, const wire::Header& request,
                       wire::ErrorCode error, const std::string& text) {
  wire::Frame frame;
  frame.header = request;
  frame.header.op = op;
  frame.header.flags = 0;
  frame.header.element_count = 0;
  frame.header.error = error;
  frame.payload = TextOf(text);
  frame.header.payload_checksum = wire::Checksum({frame.payload.data(), frame.payload.size()});
  replies_.push_back({connection, std::move(frame)});
}

void FakeShard::RefusePush(uint32_t chunk, uint64_t clock, wire::ErrorCode error,
                           const std::string& text) {
  refused_[{chunk, clock}] = {error, text};
}

void FakeShard::Resume(uint32_t chunk, std::vector<float> weights, uint64_t version,
                       std::map<uint32_t, uint64_t> pushed) {
  resumes_ = true;
  chunks_[chunk].weights = std::move(weights);
  chunks_[chunk].version = version;
  chunks_[chunk].pushed = std::move(pushed);
}

std::vector<FakeShard::Reply> FakeShard::OnFrame(ConnectionId connection,
                                                 const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  if ((header.flags & wire::kFlagReplay) != 0) ++replays_;
  if (header.generation != generation_) {
    Refuse(connection, Op::kRetry, header, wire::ErrorCode::kWrongGeneration, "");
  } else if (header.op == Op::kHello) {
    greeted_.insert(connection);
    Say(connection, Op::kHelloOk, header);
  } else if (greeted_.count(connection) == 0) {
    faults_.push_back("data before HELLO: " + wire::Describe(header));
  } else if (retries_ > 0) {
    --retries_;
    Refuse(connection, Op::kRetry, header, wire::ErrorCode::kNone, "");
  } else if (header.op == Op::kInit) {
    OnInit(connection, frame);
  } else if (header.op == Op::kPushPull) {
    OnPush(connection, frame);
  } else if (header.op == Op::kPull) {
    OnPull(connection, header);
  } else if (header.op == Op::kRetire) {
    retired_.insert(header.node);
    Say(connection, Op::kRetireOk, header);
    AnswerCuts();
  } else if (header.op == Op::kCut) {
    chunks_[header.chunk].cutting[header.node] = connection;
    AnswerCuts();
  } else {
    faults_.push_back("unexpected: " + wire::Describe(header));
  }
  return std::exchange(replies_, {});
}

void FakeShard::OnInit(ConnectionId connection, const wire::Frame& frame) {
  Chunk& chunk = chunks_[frame.header.chunk];
  if ((frame.header.flags & wire::kFlagEmpty) != 0) {
    if (chunk.weights.empty()) {
      Refuse(connection, Op::kRetry, frame.header, wire::ErrorCode::kNone, "");
    } else {
      Say(connection, Op::kFirst, frame.header, chunk.weights, chunk.version,
          chunk.pushed[frame.header.node]);
    }
    return;
  }
  if (resumes_) faults_.push_back("weights offered: " + wire::Describe(frame.header));
  if (chunk.weights.empty()) {
    chunk.weights = FloatsOf(frame.payload);
  } else if (chunk.version == 0 && chunk.weights != FloatsOf(frame.payload)) {
    Refuse(connection, Op::kError, frame.header, wire::ErrorCode::kConflict, "other weights");
    return;
  }
  Say(connection, Op::kInitOk, frame.header);
}

void FakeShard::OnPull(ConnectionId connection, const wire::Header& header) {
  Chunk& chunk = chunks_[header.chunk];
  const bool only_counts = (header.flags & wire::kFlagEmpty) != 0;
  Say(connection, Op::kPulled, header, only_counts ? std::vector<float>() : chunk.weights,
      chunk.version, chunk.pushed[header.node]);
  if (only_counts) replies_.back().frame.header.flags = wire::kFlagEmpty;
}

void FakeShard::OnPush(ConnectionId connection, const wire::Frame& frame) {
  const wire::Header& header = frame.header;
  Chunk& chunk = chunks_[header.chunk];
  uint64_t& pushed = chunk.pushed[header.node];
  if (auto it = refused_.find({header.chunk, header.clock}); it != refused_.end()) {
    Refuse(connection, Op::kError, header, it->second.first, it->second.second);
    return;
  }
  if (header.clock > pushed) {
    faults_.push_back("clock ahead: " + wire::Describe(header));
    return;
  }
  if (header.clock + 1 < pushed) return;  // a duplicate of a request answered long ago
  chunk.waiting[header.node] = connection;
  if (header.clock < pushed) {
    const auto before = chunk.checksum.find(header.node);  // no process in this job has pushed it
    if (before != chunk.checksum.end() && header.payload_checksum != before->second) {
      faults_.push_back("other bits: " + wire::Describe(header));
    }
    if (chunk.version > header.clock) {
      Say(connection, Op::kAnswer, header, chunk.weights, chunk.version);
    }
    return;
  }
  ++pushed;
  chunk.checksum[header.node] = header.payload_checksum;
  auto& sums = chunk.sums[header.clock];
  sums[header.node] = FloatsOf(frame.payload);
  if (sums.size() < nodes_) return;
  for (const auto& [node, sum] : sums) {
    for (size_t i = 0; i < sum.size(); ++i) chunk.weights[i] += sum[i];
  }
  chunk.sums.erase(header.clock);
  chunk.version = header.clock + 1;
  for (const auto& [node, to] : chunk.waiting) {
    wire::Header request = header;
    request.node = node;
    Say(to, Op::kAnswer, request, chunk.weights, chunk.version);
  }
  chunk.waiting.clear();
}

void FakeShard::AnswerCuts() {
  if (retired_.size() < nodes_) return;
  for (auto& [id, chunk] : chunks_) {
    for (const auto& [node, connection] : chunk.cutting) {
      wire::Header request;
      request.chunk = id;
      request.node = node;
      request.clock = chunk.pushed[node];
      Say(connection, Op::kCutAnswer, request, chunk.weights, chunk.version);
    }
    chunk.cutting.clear();
  }
}

}  // namespace strata::worker
