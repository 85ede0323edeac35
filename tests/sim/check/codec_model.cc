#include "tests/sim/check/codec_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/testing/reference.h"

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

namespace {

using kernels::Feedback;

const kernels::DenseCodec& DenseOf(wire::Codec codec) {
  const kernels::CodecKernels& codecs = kernels::reference::Codecs();
  switch (codec) {
    case wire::Codec::kFloat16:
      return codecs.float16;
    case wire::Codec::kBFloat16:
      return codecs.bfloat16;
    case wire::Codec::kInt8:
      return codecs.int8;
    default:
      return codecs.one_bit;
  }
}

template <typename T>
void Append(T value, std::vector<std::byte>* to) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof value>>(value);
  for (const std::byte byte : bytes) to->push_back(byte);
}

}  // namespace

wire::Codec ReferenceCodec(const proto::Encoding& encoding) {
  switch (encoding.codec()) {
    case proto::Encoding::FP16:
      return wire::Codec::kFloat16;
    case proto::Encoding::BF16:
      return wire::Codec::kBFloat16;
    case proto::Encoding::INT8:
      return wire::Codec::kInt8;
    case proto::Encoding::ONE_BIT:
      return wire::Codec::kOneBit;
    case proto::Encoding::TOP_K:
    case proto::Encoding::DGC:
      return wire::Codec::kSparse;
    default:
      return wire::Codec::kNone;
  }
}

ReferenceEncoder::ReferenceEncoder(const proto::Encoding& encoding, Of of, std::vector<float> first)
    : encoding_(encoding), of_(of), state_(std::move(first)), momentum_(state_.size(), 0.0f) {}

double ReferenceEncoder::DensityAt(double epochs) const {
  if (encoding_.codec() != proto::Encoding::DGC) return encoding_.density();
  const double whole = encoding_.warmup_epochs();
  double density = encoding_.density();
  if (epochs < whole) {
    density = epochs < whole / 4       ? 0.25
              : epochs < whole / 2     ? 0.0625
              : epochs < whole * 3 / 4 ? 0.016
                                       : 0.004;
  }
  return std::max<double>(density, encoding_.density());
}

std::vector<std::byte> ReferenceEncoder::Encode(absl::Span<const float> x, double epochs) {
  return ReferenceCodec(encoding_) == wire::Codec::kSparse ? EncodeLargest(x, DensityAt(epochs))
                                                           : EncodeDense(x);
}

std::vector<std::byte> ReferenceEncoder::EncodeDense(absl::Span<const float> x) {
  const wire::Codec codec = ReferenceCodec(encoding_);
  std::vector<std::byte> payload(wire::EncodedBytesMax(codec, x.size()));
  const Feedback feedback = of_ == Of::kVersions ? Feedback::kFollow : Feedback::kResidual;
  DenseOf(codec).encode(x.data(), feedback, state_.data(), x.size(), payload.data());
  return payload;
}

std::vector<std::byte> ReferenceEncoder::EncodeLargest(absl::Span<const float> x, double density) {
  std::vector<float> p(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (of_ == Of::kVersions) {
      p[i] = x[i] - state_[i];
    } else if (encoding_.codec() == proto::Encoding::DGC) {
      const float kept = encoding_.momentum() * momentum_[i];
      momentum_[i] = kept + x[i];
      p[i] = state_[i] + momentum_[i];
    } else {
      p[i] = state_[i] + x[i];
    }
  }
  std::vector<uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return std::abs(p[a]) > std::abs(p[b]); });
  const auto most = std::max<size_t>(1, (x.size() - 1) / 2);
  size_t count = std::clamp<size_t>(std::llround(density * x.size()), 1, most);
  while (count > 0 && p[order[count - 1]] == 0) --count;
  order.resize(count);
  std::sort(order.begin(), order.end());
  std::vector<std::byte> payload;
  Append(static_cast<uint32_t>(count), &payload);
  for (const uint32_t i : order) Append(i, &payload);
  for (const uint32_t i : order) Append(p[i], &payload);
  if (of_ == Of::kIncrements) state_ = p;
  for (const uint32_t i : order) {
    state_[i] = of_ == Of::kVersions ? state_[i] + p[i] : 0.0f;
    momentum_[i] = 0;
  }
  return payload;
}

std::vector<float> ReferenceDecode(wire::Codec codec, size_t elements,
                                   absl::Span<const std::byte> payload) {
  std::vector<float> decoded(elements, 0.0f);
  if (codec == wire::Codec::kNone) {
    std::memcpy(decoded.data(), payload.data(), elements * sizeof(float));
  } else if (codec == wire::Codec::kSparse) {
    uint32_t count;
    std::memcpy(&count, payload.data(), 4);
    for (uint32_t j = 0; j < count; ++j) {
      uint32_t index;
      std::memcpy(&index, &payload[4 + 4 * j], 4);
      std::memcpy(&decoded[index], &payload[4 + 4 * (count + j)], 4);
    }
  } else {
    DenseOf(codec).decode(payload.data(), nullptr, decoded.data(), elements);
  }
  return decoded;
}

}  // namespace strata::sim
