#include "server/testing/shard_harness.h"

#include <memory>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/job/job.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

absl::Span<const std::byte> SpanOf(const Bytes& bytes) {
  return absl::MakeConstSpan(bytes.data(), bytes.size());
}

wire::Frame WithPayload(wire::Frame frame, Bytes payload) {
  frame.payload = std::move(payload);
  frame.header.payload_checksum = wire::Checksum(SpanOf(frame.payload));
  return frame;
}

}  // namespace

proto::JobRecord MakeRecord(const JobOptions& options) {
  proto::JobRecord record;
  record.set_job_id(options.job);
  record.set_token(1000 + options.job);
  record.set_cluster(55);
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(options.job_text, record.mutable_job()));
  record.mutable_job()->mutable_data()->set_batch_per_rank(options.batch_per_rank);
  FillDefaults(record.mutable_job());
  record.mutable_view()->set_number(3);
  uint32_t rank = 0;
  for (size_t i = 0; i < options.ranks.size(); ++i) {
    proto::LogicalNode* node = record.mutable_view()->add_nodes();
    node->set_node(i);
    node->set_first_rank(rank);
    node->set_ranks(options.ranks[i]);
    rank += options.ranks[i];
  }
  proto::Placement* placement = record.mutable_placement();
  placement->set_generation(2);
  placement->set_chunk_elements(options.chunk_elements);
  for (uint32_t shard = 0; shard < options.shards; ++shard) {
    placement->add_shard_endpoints(absl::StrFormat("tcp://127.0.0.1:%d", 9000 + shard));
  }
  const ChunkMap map(options.elements, options.chunk_elements);
  for (uint32_t chunk = 0; chunk < map.chunks(); ++chunk) {
    placement->add_shard_of_chunk(chunk % options.shards);
  }
  record.mutable_layout()->set_elements(options.elements);
  proto::Segment* segment = record.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(options.elements);
  segment->set_lr_multiplier(1.0f);
  segment->set_decay_multiplier(1.0f);
  return record;
}

wire::Frame ControlFrame(const proto::JobRecord& record, wire::Op op, uint32_t node, uint32_t chunk,
                         uint64_t clock) {
  wire::Frame frame;
  frame.header.op = op;
  frame.header.job = record.job_id();
  frame.header.view = record.view().number();
  frame.header.generation = record.placement().generation();
  frame.header.node = node;
  frame.header.incarnation = 1;
  frame.header.chunk = chunk;
  frame.header.clock = clock;
  return frame;
}

wire::Frame HelloFrame(const proto::JobRecord& record, uint32_t node, uint32_t incarnation,
                       uint32_t connection, uint32_t shard) {
  wire::Hello hello;
  hello.shard = shard;
  hello.connection = connection;
  hello.protocol = kProtocolVersion;
  hello.cluster = record.cluster();
  hello.token = record.token();
  const auto bytes = std::make_shared<std::array<std::byte, wire::kHelloBytes>>(EncodeHello(hello));
  wire::Frame frame = ControlFrame(record, wire::Op::kHello, node, 0, 0);
  frame.header.incarnation = incarnation;
  return WithPayload(std::move(frame), Bytes(bytes, bytes->data(), bytes->size()));
}

wire::Frame InitFrame(const proto::JobRecord& record, uint32_t node, uint32_t chunk,
                      const std::vector<float>& weights) {
  wire::Frame frame = ControlFrame(record, wire::Op::kInit, node, chunk, 0);
  frame.header.element_count = weights.size();
  return WithPayload(std::move(frame), ToBytes(weights));
}

wire::Frame PushFrame(const proto::JobRecord& record, uint32_t node, uint32_t chunk, uint64_t clock,
                      const std::vector<float>& sum, uint32_t samples, uint64_t base_version) {
  wire::Frame frame = ControlFrame(record, wire::Op::kPushPull, node, chunk, clock);
  frame.header.element_count = sum.size();
  frame.header.sample_count = samples;
  frame.header.base_version = base_version;
  return WithPayload(std::move(frame), ToBytes(sum));
}

wire::Frame EmptyFrame(const proto::JobRecord& record, uint32_t node, uint32_t chunk,
                       uint64_t clock, uint32_t samples) {
  wire::Frame frame = PushFrame(record, node, chunk, clock, {}, samples);
  frame.header.flags = wire::kFlagEmpty;
  return frame;
}

Bytes ToBytes(const std::vector<float>& values) {
  const auto copy = std::make_shared<std::vector<float>>(values);
  return Bytes(copy, reinterpret_cast<const std::byte*>(copy->data()),
               copy->size() * sizeof(float));
}

std::vector<float> ToFloats(const wire::Frame& frame) {
  return {frame.payload.floats(), frame.payload.floats() + frame.payload.float_count()};
}

ShardHarness::ShardHarness(std::function<absl::Time()> trace_clock)
    : core_(kernels::Cpu(), nullptr, std::move(trace_clock)) {}

transport::ConnectionId ShardHarness::Join(const proto::JobRecord& record, uint32_t node,
                                           uint32_t incarnation, uint32_t connection,
                                           uint32_t shard) {
  const transport::ConnectionId joined = Connect();
  const wire::Frame hello = HelloFrame(record, node, incarnation, connection, shard);
  EXPECT_EQ(DeliverForOne(joined, hello).header.op, wire::Op::kHelloOk);
  return joined;
}

std::vector<Sent> ShardHarness::Deliver(transport::ConnectionId connection,
                                        const wire::Frame& frame) {
  std::vector<ShardAction> actions;
  core_.OnFrame(connection, frame, now_, &actions);
  return Check(std::move(actions), connection, &frame);
}

void ShardHarness::Lose(transport::ConnectionId connection) {
  std::vector<ShardAction> actions;
  core_.OnDisconnected(connection, absl::OkStatus(), now_, &actions);
  EXPECT_TRUE(actions.empty());
}

std::vector<Sent> ShardHarness::PassTime(absl::Duration duration) {
  now_ += duration;
  std::vector<ShardAction> actions;
  core_.OnTime(now_, &actions);
  EXPECT_GT(core_.deadline(), now_);
  return Check(std::move(actions), transport::ConnectionId(), nullptr);
}

std::vector<Sent> ShardHarness::Check(std::vector<ShardAction> actions,
                                      transport::ConnectionId connection,
                                      const wire::Frame* answered) {
  std::vector<Sent> sent;
  for (ShardAction& action : actions) {
    EXPECT_EQ(action.kind, ShardAction::Kind::kSend);
    const Bytes& payload = action.frame.payload;
    action.frame.header.payload_checksum = wire::PayloadChecksum(payload);  // as endpoints do
    wire::Header decoded;
    const absl::Status status =
        wire::Decode(wire::EncodeHeader(action.frame.header, payload.size()), SpanOf(payload),
                     wire::Limits(), &decoded);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(decoded, action.frame.header);
    const bool refuses = decoded.op == wire::Op::kError || decoded.op == wire::Op::kRetry;
    if (refuses && answered != nullptr && action.connection == connection) {
      EXPECT_LE(payload.size(), answered->payload.size());
    }
    sent.push_back({action.connection, std::move(action.frame)});
  }
  return sent;
}

wire::Frame ShardHarness::DeliverForOne(transport::ConnectionId connection,
                                        const wire::Frame& frame) {
  std::vector<Sent> sent = Deliver(connection, frame);
  EXPECT_EQ(sent.size(), 1u);
  if (sent.size() != 1) return {};
  EXPECT_EQ(sent[0].connection, connection);
  return sent[0].frame;
}

}  // namespace strata::server
