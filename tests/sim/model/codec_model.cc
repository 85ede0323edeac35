#include "tests/sim/model/codec_model.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::sim {
namespace {

absl::Span<const std::byte> SpanOf(const Bytes& bytes) {
  return absl::MakeConstSpan(bytes.data(), bytes.size());
}

bool Equal(const Bytes& bytes, absl::Span<const std::byte> expected) {
  return std::equal(expected.begin(), expected.end(), bytes.data(), bytes.data() + bytes.size());
}

}  // namespace

CodecModel::CodecModel(const proto::JobRecord& record)
    : record_(record),
      map_(record.layout().elements(), record.placement().chunk_elements()),
      push_codec_(ReferenceCodec(record.job().push())),
      answer_codec_(ReferenceCodec(record.job().pull())),
      copies_(map_.chunks()) {
  for (const proto::LogicalNode& node : record.view().nodes()) ranks_ += node.ranks();
}

void CodecModel::OnNodeStart(uint32_t node, uint32_t incarnation) {
  if (!encodes_pushes()) return;
  std::vector<Sender>& chunks = senders_[{node, incarnation}];
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    chunks.push_back(
        {.encoder = ReferenceEncoder(record_.job().push(), ReferenceEncoder::Of::kIncrements,
                                     std::vector<float>(map_.ElementsOf(ChunkId(c)), 0.0f)),
         .payloads = {}});
  }
}

void CodecModel::OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock,
                       uint32_t samples, absl::Span<const float> sum) {
  if (!encodes_pushes()) return;
  Sender& sender = senders_.at({node, incarnation})[chunk.value()];
  const proto::LogicalNode& self = record_.view().nodes(static_cast<int>(node));
  const double epochs =
      static_cast<double>(sender.samples) * (static_cast<double>(ranks_) / self.ranks() /
                                             static_cast<double>(record_.samples_per_epoch()));
  sender.payloads[clock] = sender.encoder.Encode(sum, epochs);
  if (sender.payloads.size() > 2) sender.payloads.erase(sender.payloads.begin());
  sender.samples += samples;
}

std::string CodecModel::CheckPush(const wire::Frame& push) const {
  const wire::Header& header = push.header;
  const bool may_be_sparse = record_.job().consistency().lazy().has_significance();
  if (may_be_sparse && header.codec == wire::Codec::kSparse) return "";
  if (header.codec != push_codec_) return "codec " + wire::ToString(header.codec);
  if (!encodes_pushes()) return "";
  const Sender& sender = senders_.at({header.node, header.incarnation})[header.chunk];
  const auto payload = sender.payloads.find(header.clock);
  if (payload == sender.payloads.end()) {
    return absl::StrFormat("clock %d is not one that the node has just summed", header.clock);
  }
  return Equal(push.payload, payload->second) ? "" : "another payload than the model's";
}

std::vector<float> CodecModel::SumOf(const wire::Frame& push) const {
  return ReferenceDecode(push.header.codec, map_.ElementsOf(ChunkId(push.header.chunk)),
                         SpanOf(push.payload));
}

void CodecModel::OnInit(ChunkId chunk, const std::vector<float>& first_weights) {
  if (!encodes_answers()) return;
  for (int node = 0; node < record_.view().nodes_size(); ++node) {
    copies_[chunk.value()].push_back(
        {.encoder =
             ReferenceEncoder(record_.job().pull(), ReferenceEncoder::Of::kVersions, first_weights),
         .given = {Given{.payload = {}, .state = first_weights}}});
  }
}

void CodecModel::OnDue(ChunkId chunk, uint32_t node, const std::vector<float>& weights,
                       uint64_t version) {
  if (!encodes_answers()) return;
  Copy& copy = copies_[chunk.value()][node];
  Given given{.answers = copy.given.back().answers + 1, .version = version};
  given.payload = copy.encoder.Encode(weights, 0);
  given.state = copy.encoder.state();
  if (record_.job().replicas() == 0) copy.given.clear();
  copy.given.push_back(std::move(given));
}

std::string CodecModel::CheckAnswer(const wire::Frame& answer) const {
  return Check(copies_[answer.header.chunk][answer.header.node].given.back(), answer);
}

std::string CodecModel::CheckEarlierAnswer(const wire::Frame& answer,
                                           std::vector<float>* copy) const {
  const std::vector<Given>& all = copies_[answer.header.chunk][answer.header.node].given;
  const auto fits = std::find_if(all.rbegin(), all.rend(),
                                 [&](const Given& g) { return Check(g, answer).empty(); });
  if (fits == all.rend()) return Check(all.back(), answer);
  *copy = fits->state;
  return "";
}

std::string CodecModel::Check(const Given& given, const wire::Frame& answer) const {
  const wire::Header& header = answer.header;
  if (header.version != given.version) {
    return absl::StrFormat("version %d, not %d", header.version, given.version);
  }
  const bool is_whole = header.codec == wire::Codec::kNone;
  if (!is_whole && header.codec != answer_codec_) return "codec " + wire::ToString(header.codec);
  const uint64_t base = given.answers - (is_whole ? 0 : 1);
  if (header.base_version != base) {
    return absl::StrFormat("on %d answers, not %d", header.base_version, base);
  }
  const std::vector<float>& state = given.state;
  const auto* whole = reinterpret_cast<const std::byte*>(state.data());
  const absl::Span<const std::byte> expected =
      is_whole ? absl::MakeConstSpan(whole, state.size() * sizeof(float)) : given.payload;
  return Equal(answer.payload, expected) ? "" : "another payload than the model's";
}

}  // namespace strata::sim
