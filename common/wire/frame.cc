#include "common/wire/frame.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "common/wire/little_endian.h"

namespace strata::wire {
namespace {

// Offsets of the table in frame.h.
constexpr size_t kWireVersionAt = 4, kOpAt = 5, kFlagsAt = 6, kKeySpaceAt = 7, kDTypeAt = 8,
                 kCodecAt = 9, kPayloadKindAt = 10, kErrorAt = 11, kJobAt = 12, kViewAt = 16,
                 kGenerationAt = 20, kChunkAt = 24, kNodeAt = 28, kIncarnationAt = 32,
                 kElementCountAt = 36, kClockAt = 40, kBaseVersionAt = 48, kVersionAt = 56,
                 kReceivedAt = 64, kDurableThroughAt = 72, kSampleCountAt = 80, kStalenessAt = 84,
                 kPayloadBytesAt = 88, kMinClockAt = 96, kSequenceAt = 104,
                 kPayloadChecksumAt = 112, kHeaderChecksumAt = 120;

// The largest HANDSHAKE payload: more than TLS ever sends at once.
constexpr size_t kHandshakeBytesMax = 16 << 10;
constexpr uint8_t kKnownFlags = kFlagEmpty | kFlagReplay;

template <typename Enum>
std::byte Octet(Enum value) {
  return static_cast<std::byte>(static_cast<std::underlying_type_t<Enum>>(value));
}

// The payload that may follow the header.
enum class PayloadRule {
  kNone,
  kElements,
  kRowSections,
  kBytes,
  kText,
  kHello,
  kChecksums,
  kSession,
  kHandshake
};

// Returns whether nodes and shards say this op of rows.
bool IsOfRows(Op op) {
  return op == Op::kPushPull || op == Op::kAnswer || op == Op::kLookup || op == Op::kRows ||
         op == Op::kRetire || op == Op::kRetireOk || op == Op::kRetry || op == Op::kError;
}

PayloadRule RuleFor(const Header& header) {
  if (header.key_space == KeySpace::kRows && header.op == Op::kPushPull) {
    return PayloadRule::kRowSections;
  }
  switch (header.op) {
    case Op::kInit:
    case Op::kFirst:
    case Op::kPushPull:
    case Op::kAnswer:
    case Op::kCutAnswer:
    case Op::kReduce:
    case Op::kGather:
    case Op::kApply:
    case Op::kPulled:
    case Op::kRows:
      return PayloadRule::kElements;
    case Op::kLookup:
      return PayloadRule::kRowSections;
    case Op::kCopy:
      return PayloadRule::kBytes;
    case Op::kSeed:
      return PayloadRule::kChecksums;
    case Op::kRetry:
    case Op::kError:
      return PayloadRule::kText;
    case Op::kHello:
      return PayloadRule::kHello;
    case Op::kAttach:
      return PayloadRule::kSession;
    case Op::kHandshake:
      return PayloadRule::kHandshake;
    case Op::kHelloOk:
    case Op::kInitOk:
    case Op::kCut:
    case Op::kRetire:
    case Op::kRetireOk:
    case Op::kAck:
    case Op::kAttachOk:
    case Op::kPull:
      break;
  }
  return PayloadRule::kNone;
}

absl::Status Refuse(const std::string& reason) { return absl::InvalidArgumentError(reason); }

uint64_t HeaderChecksum(absl::Span<const std::byte> header) {
  return Checksum(header.first(kHeaderChecksumAt));
}

// Checks size, magic, version and checksum: whether the 128 bytes are a header at all. The version
// comes before the checksum, so that a peer of another version learns why it is refused.
absl::Status CheckEnvelope(absl::Span<const std::byte> bytes) {
  if (bytes.size() != kHeaderBytes) {
    return Refuse(absl::StrFormat("header is %d bytes, not %d", bytes.size(), kHeaderBytes));
  }
  if (const auto magic = Get<uint32_t>(bytes.data()); magic != kMagic) {
    return Refuse(absl::StrFormat("magic is 0x%08x, not \"STRA\"", magic));
  }
  if (const auto version = Get<uint8_t>(&bytes[kWireVersionAt]); version != kWireVersion) {
    return Refuse(absl::StrFormat("wire_version is %d, not %d", version, kWireVersion));
  }
  if (Get<uint64_t>(&bytes[kHeaderChecksumAt]) != HeaderChecksum(bytes)) {
    return Refuse("header_checksum is wrong");
  }
  return absl::OkStatus();
}

// Checks one-byte fields and reserved bits. REQUIRES: CheckEnvelope.
absl::Status CheckValues(absl::Span<const std::byte> bytes) {
  const auto octet = [&](size_t at) { return Get<uint8_t>(&bytes[at]); };
  if (octet(kOpAt) < static_cast<uint8_t>(Op::kHello) ||
      octet(kOpAt) > static_cast<uint8_t>(Op::kRows)) {
    return Refuse(absl::StrFormat("op is %d, which is unknown", octet(kOpAt)));
  }
  if ((octet(kFlagsAt) & ~kKnownFlags) != 0) {
    return Refuse(absl::StrFormat("flags are 0x%02x, with unknown bits", octet(kFlagsAt)));
  }
  if (octet(kKeySpaceAt) > static_cast<uint8_t>(KeySpace::kRows)) {
    return Refuse(absl::StrFormat("key_space is %d, which is unknown", octet(kKeySpaceAt)));
  }
  if (octet(kDTypeAt) != static_cast<uint8_t>(DType::kFloat32)) {
    return Refuse(absl::StrFormat("dtype is %d, which is unknown", octet(kDTypeAt)));
  }
  if (octet(kCodecAt) >= kCodecs) {
    return Refuse(absl::StrFormat("codec is %d, which is unknown", octet(kCodecAt)));
  }
  if (octet(kPayloadKindAt) > static_cast<uint8_t>(PayloadKind::kRegion)) {
    return Refuse(absl::StrFormat("payload_kind is %d, which is unknown", octet(kPayloadKindAt)));
  }
  if (octet(kErrorAt) > static_cast<uint8_t>(ErrorCode::kWrongConnection)) {
    return Refuse(absl::StrFormat("error is %d, which is unknown", octet(kErrorAt)));
  }
  return absl::OkStatus();
}

bool HasSlice(Op op) { return op == Op::kReduce || op == Op::kGather; }
bool HasRate(Op op) { return op == Op::kPushPull || op == Op::kApply; }

// Returns the value at kStalenessAt and kBaseVersionAt, whose meaning depends on the op.
uint32_t StalenessSlot(const Header& header) {
  if (HasSlice(header.op)) return header.slice;
  return HasRate(header.op) ? std::bit_cast<uint32_t>(header.rate) : header.staleness;
}
uint64_t BaseVersionSlot(const Header& header) {
  return header.op == Op::kReduce ? std::bit_cast<uint32_t>(header.rate) : header.base_version;
}

void ParseSharedSlots(uint32_t staleness, uint64_t base_version, Header* header) {
  if (header->op == Op::kReduce) {
    header->rate = std::bit_cast<float>(static_cast<uint32_t>(base_version));
  } else {
    header->base_version = base_version;
  }
  if (HasSlice(header->op)) {
    header->slice = staleness;
  } else if (HasRate(header->op)) {
    header->rate = std::bit_cast<float>(staleness);
  } else {
    header->staleness = staleness;
  }
}

Header ParseFields(absl::Span<const std::byte> bytes) {
  Header header;
  header.op = static_cast<Op>(bytes[kOpAt]);
  header.flags = static_cast<uint8_t>(bytes[kFlagsAt]);
  header.key_space = static_cast<KeySpace>(bytes[kKeySpaceAt]);
  header.dtype = static_cast<DType>(bytes[kDTypeAt]);
  header.codec = static_cast<Codec>(bytes[kCodecAt]);
  header.payload_kind = static_cast<PayloadKind>(bytes[kPayloadKindAt]);
  header.error = static_cast<ErrorCode>(bytes[kErrorAt]);
  header.job = Get<uint32_t>(&bytes[kJobAt]);
  header.view = Get<uint32_t>(&bytes[kViewAt]);
  header.generation = Get<uint32_t>(&bytes[kGenerationAt]);
  header.chunk = Get<uint32_t>(&bytes[kChunkAt]);
  header.node = Get<uint32_t>(&bytes[kNodeAt]);
  header.incarnation = Get<uint32_t>(&bytes[kIncarnationAt]);
  header.element_count = Get<uint32_t>(&bytes[kElementCountAt]);
  header.clock = Get<uint64_t>(&bytes[kClockAt]);
  header.version = Get<uint64_t>(&bytes[kVersionAt]);
  header.received = Get<uint64_t>(&bytes[kReceivedAt]);
  header.durable_through = Get<uint64_t>(&bytes[kDurableThroughAt]);
  header.sample_count = Get<uint32_t>(&bytes[kSampleCountAt]);
  ParseSharedSlots(Get<uint32_t>(&bytes[kStalenessAt]), Get<uint64_t>(&bytes[kBaseVersionAt]),
                   &header);
  header.min_clock = Get<uint64_t>(&bytes[kMinClockAt]);
  header.sequence = Get<uint64_t>(&bytes[kSequenceAt]);
  header.payload_checksum = Get<uint64_t>(&bytes[kPayloadChecksumAt]);
  return header;
}

// Checks that op, flags and error are consistent.
absl::Status CheckMeaning(const Header& header) {
  const bool may_carry_error = header.op == Op::kError || header.op == Op::kRetry;
  if (header.error != ErrorCode::kNone && !may_carry_error) {
    return Refuse(
        absl::StrFormat("error is %s in op %s", ToString(header.error), ToString(header.op)));
  }
  if (header.error == ErrorCode::kNone && header.op == Op::kError) {
    return Refuse("error is NONE in op ERROR");
  }
  const bool may_be_empty = header.op == Op::kPushPull || header.op == Op::kInit ||
                            header.op == Op::kApply || header.op == Op::kPull ||
                            header.op == Op::kPulled;
  if ((header.flags & kFlagEmpty) != 0 && !may_be_empty) {
    return Refuse(absl::StrFormat("flag EMPTY in op %s", ToString(header.op)));
  }
  const bool is_of_rows = header.key_space == KeySpace::kRows;
  if (is_of_rows ? !IsOfRows(header.op) : header.op == Op::kLookup || header.op == Op::kRows) {
    return Refuse(absl::StrFormat("key_space is %s in op %s", is_of_rows ? "ROWS" : "DENSE",
                                  ToString(header.op)));
  }
  if (is_of_rows && header.codec != Codec::kNone) {
    return Refuse(absl::StrFormat("codec is %s, but rows are fp32", ToString(header.codec)));
  }
  const bool has_elements =
      RuleFor(header) == PayloadRule::kElements && (header.flags & kFlagEmpty) == 0;
  if (header.codec != Codec::kNone && !has_elements) {
    return Refuse(absl::StrFormat("codec is %s in op %s, which carries no elements",
                                  ToString(header.codec), ToString(header.op)));
  }
  if (header.payload_kind == PayloadKind::kRegion && !has_elements) {
    return Refuse(absl::StrFormat("payload_kind is REGION in op %s, which carries no elements",
                                  ToString(header.op)));
  }
  if (header.sequence != 0 && !IsSequenced(header.op) && !IsLogged(header.op)) {
    return Refuse(absl::StrFormat("sequence is %d in op %s, which carries none", header.sequence,
                                  ToString(header.op)));
  }
  return absl::OkStatus();
}

// Checks the rate of a sum; for other frames its field is 0.
absl::Status CheckRate(const Header& header, uint64_t base_version) {
  if (!std::isfinite(header.rate) || std::signbit(header.rate)) {
    return Refuse(absl::StrFormat("rate is %g, not a finite number >= 0", header.rate));
  }
  if (header.op == Op::kReduce && base_version >> 32 != 0) {
    return Refuse(
        absl::StrFormat("base_version is 0x%x in op REDUCE, whose rate has 4 bytes", base_version));
  }
  return absl::OkStatus();
}

absl::Status CheckPayloadSize(const Header& header, uint64_t declared, uint64_t actual,
                              const Limits& limits) {
  if (declared != actual) {
    return Refuse(absl::StrFormat("payload_bytes is %d, but %d came", declared, actual));
  }
  if (actual > limits.payload_bytes_max) {
    return Refuse(absl::StrFormat("payload_bytes is %d, over the limit of %d", actual,
                                  limits.payload_bytes_max));
  }
  if ((header.flags & kFlagEmpty) != 0 && actual != 0) {
    return Refuse(absl::StrFormat("flag EMPTY with a payload of %d bytes", actual));
  }
  const PayloadRule rule = RuleFor(header);
  if (header.payload_kind == PayloadKind::kRegion) {
    if (actual == kRegionReferenceBytes) return absl::OkStatus();
    return Refuse(absl::StrFormat("reference to a region of %d bytes, not %d", actual,
                                  kRegionReferenceBytes));
  }
  if (rule == PayloadRule::kElements) {
    return CheckEncodedBytes(header.codec, header.element_count, actual);
  }
  // Only the job knows whether the sections fit its tables.
  if (rule == PayloadRule::kRowSections) return absl::OkStatus();
  if (header.element_count != 0) {
    return Refuse(absl::StrFormat("element_count is %d in op %s, which carries none",
                                  header.element_count, ToString(header.op)));
  }
  if (rule == PayloadRule::kNone && actual != 0) {
    return Refuse(absl::StrFormat("payload of %d bytes in op %s, which carries none", actual,
                                  ToString(header.op)));
  }
  if (rule == PayloadRule::kHello && actual != kHelloBytes) {
    return Refuse(absl::StrFormat("HELLO of %d bytes, not %d", actual, kHelloBytes));
  }
  if (rule == PayloadRule::kChecksums && (actual == 0 || actual % sizeof(uint64_t) != 0)) {
    return Refuse(absl::StrFormat("SEED of %d bytes, not of whole checksums", actual));
  }
  if (rule == PayloadRule::kHandshake && (actual == 0 || actual > kHandshakeBytesMax)) {
    return Refuse(
        absl::StrFormat("HANDSHAKE of %d bytes, not 1 to %d", actual, kHandshakeBytesMax));
  }
  if (rule == PayloadRule::kSession && actual != sizeof(uint64_t)) {
    return Refuse(absl::StrFormat("ATTACH of %d bytes, not %d", actual, sizeof(uint64_t)));
  }
  return absl::OkStatus();
}

// A reference's own bytes are not: the referenced data is never sealed.
bool IsSealed(bool has_seal, const Header& header) {
  return has_seal && header.payload_kind == PayloadKind::kInline;
}

}  // namespace

uint64_t ChecksumToSend(const Frame& frame) {
  return IsSealed(frame.seal.has_value(), frame.header) ? 0 : PayloadChecksum(frame.payload);
}

std::array<std::byte, kHeaderBytes> EncodeHeader(const Header& header, uint64_t payload_bytes) {
  std::array<std::byte, kHeaderBytes> bytes = {};
  Put(&bytes[0], kMagic);
  Put(&bytes[kWireVersionAt], kWireVersion);
  bytes[kOpAt] = Octet(header.op);
  Put(&bytes[kFlagsAt], header.flags);
  bytes[kKeySpaceAt] = Octet(header.key_space);
  bytes[kDTypeAt] = Octet(header.dtype);
  bytes[kCodecAt] = Octet(header.codec);
  bytes[kPayloadKindAt] = Octet(header.payload_kind);
  bytes[kErrorAt] = Octet(header.error);
  Put(&bytes[kJobAt], header.job);
  Put(&bytes[kViewAt], header.view);
  Put(&bytes[kGenerationAt], header.generation);
  Put(&bytes[kChunkAt], header.chunk);
  Put(&bytes[kNodeAt], header.node);
  Put(&bytes[kIncarnationAt], header.incarnation);
  Put(&bytes[kElementCountAt], header.element_count);
  Put(&bytes[kClockAt], header.clock);
  Put(&bytes[kBaseVersionAt], BaseVersionSlot(header));
  Put(&bytes[kVersionAt], header.version);
  Put(&bytes[kReceivedAt], header.received);
  Put(&bytes[kDurableThroughAt], header.durable_through);
  Put(&bytes[kSampleCountAt], header.sample_count);
  Put(&bytes[kStalenessAt], StalenessSlot(header));
  Put(&bytes[kPayloadBytesAt], payload_bytes);
  Put(&bytes[kMinClockAt], header.min_clock);
  Put(&bytes[kSequenceAt], header.sequence);
  Put(&bytes[kPayloadChecksumAt], header.payload_checksum);
  Put(&bytes[kHeaderChecksumAt], HeaderChecksum(bytes));
  return bytes;
}

absl::Status Decode(absl::Span<const std::byte> header_bytes, absl::Span<const std::byte> payload,
                    const Limits& limits, Header* header, bool has_seal) {
  if (absl::Status status = CheckEnvelope(header_bytes); !status.ok()) return status;
  if (absl::Status status = CheckValues(header_bytes); !status.ok()) return status;
  const Header parsed = ParseFields(header_bytes);
  if (absl::Status status = CheckMeaning(parsed); !status.ok()) return status;
  if (absl::Status status = CheckRate(parsed, Get<uint64_t>(&header_bytes[kBaseVersionAt]));
      !status.ok()) {
    return status;
  }
  const auto declared = Get<uint64_t>(&header_bytes[kPayloadBytesAt]);
  if (absl::Status status = CheckPayloadSize(parsed, declared, payload.size(), limits);
      !status.ok()) {
    return status;
  }
  const uint64_t right = IsSealed(has_seal, parsed) ? 0 : Checksum(payload);
  if (parsed.payload_checksum != right) return Refuse("payload_checksum is wrong");
  *header = parsed;
  return absl::OkStatus();
}

std::array<std::byte, kHelloBytes> EncodeHello(const Hello& hello) {
  std::array<std::byte, kHelloBytes> bytes = {};
  Put(&bytes[0], hello.protocol);
  Put(&bytes[4], static_cast<uint32_t>(hello.role));
  Put(&bytes[8], hello.cluster);
  Put(&bytes[16], hello.token);
  Put(&bytes[24], hello.connection);
  Put(&bytes[28], hello.shard);
  return bytes;
}

absl::Status DecodeHello(absl::Span<const std::byte> payload, Hello* hello) {
  if (payload.size() != kHelloBytes) {
    return Refuse(absl::StrFormat("HELLO of %d bytes, not %d", payload.size(), kHelloBytes));
  }
  const auto role = Get<uint32_t>(&payload[4]);
  if (role != static_cast<uint32_t>(Hello::Role::kNode) &&
      role != static_cast<uint32_t>(Hello::Role::kPrimary)) {
    return Refuse(absl::StrFormat("HELLO role is %d, which is unknown", role));
  }
  hello->protocol = Get<uint32_t>(&payload[0]);
  hello->role = static_cast<Hello::Role>(role);
  hello->cluster = Get<uint64_t>(&payload[8]);
  hello->token = Get<uint64_t>(&payload[16]);
  hello->connection = Get<uint32_t>(&payload[24]);
  hello->shard = Get<uint32_t>(&payload[28]);
  return absl::OkStatus();
}

std::string Describe(const Header& header) {
  std::string text = absl::StrFormat(
      "%s job %u node %u.%u chunk %u clock %u elements %u", ToString(header.op), header.job,
      header.node, header.incarnation, header.chunk, header.clock, header.element_count);
  if (header.key_space == KeySpace::kRows) text += " of rows";
  if (header.version != 0) absl::StrAppendFormat(&text, " version %u", header.version);
  if (HasSlice(header.op)) absl::StrAppendFormat(&text, " slice %u", header.slice);
  if (header.sequence != 0) absl::StrAppendFormat(&text, " sequence %u", header.sequence);
  if ((header.flags & kFlagEmpty) != 0) text += " EMPTY";
  if ((header.flags & kFlagReplay) != 0) text += " REPLAY";
  if (header.error != ErrorCode::kNone) text += " " + ToString(header.error);
  return text;
}

std::string ToString(Op op) {
  switch (op) {
    case Op::kHello:
      return "HELLO";
    case Op::kHelloOk:
      return "HELLO_OK";
    case Op::kInit:
      return "INIT";
    case Op::kInitOk:
      return "INIT_OK";
    case Op::kPushPull:
      return "PUSHPULL";
    case Op::kAnswer:
      return "ANSWER";
    case Op::kCut:
      return "CUT";
    case Op::kCutAnswer:
      return "CUT_ANSWER";
    case Op::kRetire:
      return "RETIRE";
    case Op::kRetireOk:
      return "RETIRE_OK";
    case Op::kRetry:
      return "RETRY";
    case Op::kError:
      return "ERROR";
    case Op::kSeed:
      return "SEED";
    case Op::kReduce:
      return "REDUCE";
    case Op::kGather:
      return "GATHER";
    case Op::kAttach:
      return "ATTACH";
    case Op::kAttachOk:
      return "ATTACH_OK";
    case Op::kFirst:
      return "FIRST";
    case Op::kAck:
      return "ACK";
    case Op::kHandshake:
      return "HANDSHAKE";
    case Op::kApply:
      return "APPLY";
    case Op::kCopy:
      return "COPY";
    case Op::kPull:
      return "PULL";
    case Op::kPulled:
      return "PULLED";
    case Op::kLookup:
      return "LOOKUP";
    case Op::kRows:
      return "ROWS";
  }
  return absl::StrFormat("op %d", static_cast<int>(op));
}

std::string ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNone:
      return "NONE";
    case ErrorCode::kMalformed:
      return "MALFORMED";
    case ErrorCode::kWrongJob:
      return "WRONG_JOB";
    case ErrorCode::kWrongView:
      return "WRONG_VIEW";
    case ErrorCode::kWrongGeneration:
      return "WRONG_GENERATION";
    case ErrorCode::kNoHello:
      return "NO_HELLO";
    case ErrorCode::kWrongRole:
      return "WRONG_ROLE";
    case ErrorCode::kWrongChunk:
      return "WRONG_CHUNK";
    case ErrorCode::kBeyondWindow:
      return "BEYOND_WINDOW";
    case ErrorCode::kConflict:
      return "CONFLICT";
    case ErrorCode::kNotFinite:
      return "NOT_FINITE";
    case ErrorCode::kFenced:
      return "FENCED";
    case ErrorCode::kWrongVersion:
      return "WRONG_VERSION";
    case ErrorCode::kWrongCodec:
      return "WRONG_CODEC";
    case ErrorCode::kWrongConnection:
      return "WRONG_CONNECTION";
    case ErrorCode::kPeerFailed:
      return "PEER_FAILED";
  }
  return absl::StrFormat("error %d", static_cast<int>(code));
}

bool IsSequenced(Op op) {
  return op == Op::kSeed || op == Op::kFirst || op == Op::kReduce || op == Op::kGather ||
         op == Op::kRetire;
}

bool IsLogged(Op op) {
  return op == Op::kInit || op == Op::kPushPull || op == Op::kRetire || op == Op::kApply ||
         op == Op::kCopy;
}

}  // namespace strata::wire
