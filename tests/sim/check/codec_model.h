#ifndef STRATA_TESTS_SIM_CHECK_CODEC_MODEL_H_
#define STRATA_TESTS_SIM_CHECK_CODEC_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/job/arena.h"
#include "common/wire/frame.h"
#include "common/wire/payload.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"

namespace strata::sim {

// Compression with error feedback as described in proto/job.proto and common/wire/payload.h, with
// plain loops and sorting: shares no code with compression.
class ReferenceEncoder {
 public:
  enum class Of { kIncrements, kVersions };

  // `first`: for versions, the receiver's values before the first payload; otherwise zeros.
  ReferenceEncoder(const proto::Encoding& encoding, Of of, std::vector<float> first);

  // Returns the payload of the next vector. `epochs`: number of epochs trained.
  std::vector<std::byte> Encode(absl::Span<const float> x, double epochs);
  // The unsent part, if increments are encoded; the receiver's values, if versions are.
  const std::vector<float>& state() const { return state_; }

 private:
  std::vector<std::byte> EncodeDense(absl::Span<const float> x);
  std::vector<std::byte> EncodeLargest(absl::Span<const float> x, double density);
  double DensityAt(double epochs) const;

  proto::Encoding encoding_;
  Of of_;
  std::vector<float> state_, momentum_;
};

wire::Codec ReferenceCodec(const proto::Encoding& encoding);
// Returns the values of an encoded payload of this many elements.
std::vector<float> ReferenceDecode(wire::Codec codec, size_t elements,
                                   absl::Span<const std::byte> payload);

// The expected payloads of one job with servers, bit for bit. Each node encodes the sum of each
// clock once, together with the unsent rest of its chunk. Each answer is given once and contains
// what the node's copy lacks; repeated requests get the copy itself.
class CodecModel {
 public:
  // `record` with layout and placement.
  explicit CodecModel(const proto::JobRecord& record);

  bool encodes_pushes() const { return push_codec_ != wire::Codec::kNone; }
  bool encodes_answers() const { return answer_codec_ != wire::Codec::kNone; }

  // A node's process begins without an unsent rest.
  void OnNodeStart(uint32_t node, uint32_t incarnation);
  // A process has summed its ranks' gradients.
  void OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock, uint32_t samples,
             absl::Span<const float> sum);
  // Returns what is wrong with a push that is accepted for the first time; "": nothing.
  std::string CheckPush(const wire::Frame& push) const;
  std::vector<float> SumOf(const wire::Frame& push) const;

  // Every node has these weights.
  void OnInit(ChunkId chunk, const std::vector<float>& first_weights);
  // An answer to the node is due; `weights` are those of `version`.
  void OnDue(ChunkId chunk, uint32_t node, const std::vector<float>& weights, uint64_t version);
  // Returns what is wrong with an answer to a push; "": nothing.
  std::string CheckAnswer(const wire::Frame& answer) const;
  // The same for an answer that may have been delayed while others became due. `copy`: the node's
  // copy after it has taken the answer.
  std::string CheckEarlierAnswer(const wire::Frame& answer, std::vector<float>* copy) const;
  // Returns the node's copy after it has taken the last answer.
  const std::vector<float>& CopyOf(uint32_t node, ChunkId chunk) const {
    return copies_[chunk.value()][node].encoder.state();
  }

 private:
  struct Sender {
    ReferenceEncoder encoder;
    // By clock; the last two: with double buffering the next is made while one is on its way.
    std::map<uint64_t, std::vector<std::byte>> payloads;
    uint64_t samples = 0;
  };
  struct Given {
    uint64_t answers = 0, version = 0;
    std::vector<std::byte> payload;
    std::vector<float> state;  // of the encoder afterwards
  };
  struct Copy {
    ReferenceEncoder encoder;
    std::vector<Given> given;  // the last answer; where answers are kept back, all of them
  };

  std::string Check(const Given& given, const wire::Frame& answer) const;

  const proto::JobRecord record_;
  const ChunkMap map_;
  const wire::Codec push_codec_, answer_codec_;
  uint32_t ranks_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Sender>> senders_;  // by process and chunk
  std::vector<std::vector<Copy>> copies_;                                 // by chunk and node
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_CODEC_MODEL_H_
