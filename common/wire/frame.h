#ifndef STRATA_COMMON_WIRE_FRAME_H_
#define STRATA_COMMON_WIRE_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/os/limits.h"
#include "common/wire/payload.h"

namespace strata::wire {

// The purpose of a frame.
enum class Op : uint8_t {
  kHello = 1,  // first frame of a connection; payload: Hello
  kHelloOk = 2,
  kInit = 3,       // first weights of a chunk
  kInitOk = 4,     // confirmation; no payload
  kPushPull = 5,   // sum over the node's ranks
  kAnswer = 6,     // to kPushPull: weights; with a codec: to be added to those after base_version
                   // answers; without one in a job that has one: those after base_version answers
  kCut = 7,        // requests the chunk's weights at clock T
  kCutAnswer = 8,  // weights
  kRetire = 9,     // the node pushes no more: its count is infinity
  kRetireOk = 10,
  kRetry = 11,  // a frame from the future (view, generation, before INIT): send it again later
  kError = 12,  // refused; payload: text, never longer than the request's payload
  // Between nodes, besides HELLO, RETIRE and ERROR (which ends the job):
  kSeed = 13,    // payload: u64 XXH3-64 of the first weights of `chunk` and of those after it
  kReduce = 14,  // the sum of slices over some nodes
  kGather = 15,  // weights of slices
  kAck = 16,     // only `received`
  kFirst = 19,   // first weights of a chunk, forwarded; also to INIT with EMPTY
  // Between endpoints that share a host; cores do not see them:
  kAttach = 17,    // payload: u64, the session of shared memory that goes with this connection
  kAttachOk = 18,  // from now on frames may come with payload_kind REGION
  // Before HELLO, if the job's frames are sealed; cores do not see it. Payload: bytes of TLS
  kHandshake = 20,
  // From a shard's primary to its backup, besides HELLO and nodes' frames (INIT, PUSHPULL, RETIRE,
  // unchanged except for `generation`); answered by ACK.
  kApply = 21,  // the sum of a clock over all nodes that have not retired; EMPTY: no node had one.
                // With a quorum: the grace of the chunk's open clock is over
  kCopy = 22,   // the same for a chunk that the backup lacks: part `clock` of its copy
  // From a node's replacement process:
  kPull = 23,    // requests the chunk's weights at `clock`; EMPTY: only the number of pushes
                 // received
  kPulled = 24,  // that number in `received`, and the weights; EMPTY: none
  // Rows have these two ops, and PUSHPULL, ANSWER and RETIRE:
  kLookup = 25,  // requests rows of any of the shard's buckets; payload: see rows_payload.h
  kRows = 26,    // their weights
};
// Returns whether frames of this op are counted on a link between nodes.
bool IsSequenced(Op op);
// Returns whether a primary sends frames of this op to its backup, which counts them, too.
bool IsLogged(Op op);

// Why a frame is refused or postponed.
enum class ErrorCode : uint8_t {
  kNone = 0,
  kMalformed = 1,  // Decode failed
  kWrongJob = 2,   // no such job here, or a bad token
  kWrongView = 3,
  kWrongGeneration = 4,
  kNoHello = 5,  // data before HELLO, or from another node than HELLO's
  kWrongRole = 6,
  kWrongChunk = 7,        // not on this shard, or element_count not the chunk's
  kBeyondWindow = 8,      // clock beyond the job's depth
  kConflict = 9,          // INIT or duplicate with another checksum
  kNotFinite = 10,        // NaN or infinity in a push
  kFenced = 11,           // a newer incarnation of the node has sent HELLO
  kWrongVersion = 12,     // HELLO of another protocol version
  kPeerFailed = 13,       // between nodes: the job has failed at the sender
  kWrongCodec = 14,       // not the job's for this op
  kWrongConnection = 15,  // HELLO with a number above the job's connections per pair
};

std::string ToString(Op op), ToString(ErrorCode code);

// The content of HELLO, to which a connection is bound. Payload of kHello, kHelloBytes long,
// little-endian: protocol u32, role u32, cluster u64, token u64, connection u32, shard u32. Job,
// node and incarnation are in the header.
struct Hello {
  uint32_t protocol = 0;
  enum class Role : uint32_t {
    kNode = 1,
    kPrimary = 2,  // the shard's primary, to its backup; has no node
  } role = Role::kNode;
  uint64_t cluster = 0, token = 0;
  uint32_t connection = 0;  // which of the pair's connections, from 0
  uint32_t shard = 0;       // of the job; between nodes 0
};
inline constexpr size_t kHelloBytes = 32;

std::array<std::byte, kHelloBytes> EncodeHello(const Hello& hello);
// Errors: InvalidArgument: wrong size, reserved bits or role.
absl::Status DecodeHello(absl::Span<const std::byte> payload, Hello* hello);

// A data frame is a header of kHeaderBytes and a payload of payload_bytes, sent as one ZeroMQ
// message of exactly two parts (one part where payload_bytes is 0). All integers are little-endian.
//
//   offset size field
//        0    4 magic             "STRA"
//        4    1 wire_version      kWireVersion; another one is refused
//        5    1 op                Op
//        6    1 flags             bits of Flag; all other bits 0
//        7    1 key_space         KeySpace: what `chunk` is
//        8    1 dtype             DType of the payload's elements
//        9    1 codec             Codec of the payload, see payload.h
//       10    1 payload_kind      PayloadKind
//       11    1 error             ErrorCode; not kNone only in kError and kRetry
//       12    4 job
//       16    4 view
//       20    4 generation        of the placement
//       24    4 chunk             of the arena; in key space ROWS: the bucket
//       28    4 node              logical node: sender of a request, receiver of an answer; between
//                                 nodes: the sender
//       32    4 incarnation       of the node's process
//       36    4 element_count     decoded elements of the payload; PUSHPULL of rows: its values
//       40    8 clock             t of PUSHPULL and its answer, T of CUT; t of REDUCE and GATHER;
//                                 LOOKUP and ROWS: the request's number on its connection
//       48    8 base_version      of the weights of the gradient, see kAnswer; REDUCE: as rate
//       56    8 version           answers: version of the weights in the payload
//       64    8 received          answers: pushes of this node received for the chunk (watermark);
//                                 ACK, and between nodes: sequence of the last frame received in
//                                 order; APPLY: samples in the sum
//       72    8 durable_through   reserved for pushes that a crash cannot lose: nobody reads it
//       80    4 sample_count      PUSHPULL, REDUCE: samples in the sum; ANSWER of rows: new rows
//                                 that had no room
//       84    4 staleness         answers to PUSHPULL, see docs/semantics.md; PUSHPULL, APPLY: the
//                                 rate of its step; REDUCE, GATHER: slice, the first one in the
//                                 payload
//       88    8 payload_bytes
//       96    8 min_clock         answers: least number of pushes received from any of the nodes;
//       from
//                                 a primary to its backup: its time, in ns since 1970
//      104    8 sequence          between nodes, and from a primary to its backup: from 1, one more
//                                 with each frame; 0 in HELLO, HELLO_OK, ACK and ERROR, and in all
//                                 others
//      112    8 payload_checksum  XXH3-64 of the payload; 0 where there is none. REGION: of the
//                                 reference, so that it says nothing of what is referred to
//      120    8 header_checksum   XXH3-64 of bytes 0..119
//
// Where the job's frames are sealed, kSealBytes follow the header in its part, see common/seal.
// They say more than a checksum: that of a sealed payload which goes INLINE is 0.
//
// A message that is kProbe alone asks nothing: whoever looks whether a shard listens says it, so
// that it is not taken for somebody who speaks another protocol.
inline constexpr char kProbe[] = "STRATA-PROBE";
inline constexpr size_t kHeaderBytes = 128;
inline constexpr size_t kSealBytes = 40;
inline constexpr uint32_t kMagic = 0x41525453;  // "STRA"
inline constexpr uint8_t kWireVersion = 1;

enum Flag : uint8_t {
  kFlagEmpty = 1,   // no payload. PUSHPULL: adds nothing. INIT: requests the first weights
  kFlagReplay = 2,  // sent before on this or another connection
};
enum class KeySpace : uint8_t {
  kDense = 0,  // chunks of the arena
  kRows = 1,   // buckets of rows
};
enum class DType : uint8_t { kFloat32 = 0 };
enum class PayloadKind : uint8_t { kInline = 0, kRegion = 1 };  // see region_reference.h
inline constexpr size_t kRegionReferenceBytes = 32;

struct Header {
  Op op = Op::kHello;
  uint8_t flags = 0;
  KeySpace key_space = KeySpace::kDense;
  DType dtype = DType::kFloat32;
  Codec codec = Codec::kNone;
  PayloadKind payload_kind = PayloadKind::kInline;
  ErrorCode error = ErrorCode::kNone;
  uint32_t job = 0;
  uint32_t view = 0;
  uint32_t generation = 0;
  uint32_t chunk = 0;
  uint32_t node = 0;
  uint32_t incarnation = 0;
  uint32_t element_count = 0;
  uint64_t clock = 0;
  uint64_t base_version = 0;
  uint64_t version = 0;
  uint64_t received = 0;
  uint64_t durable_through = 0;
  uint32_t sample_count = 0;
  uint32_t staleness = 0, slice = 0;
  float rate = 0;  // PUSHPULL, REDUCE: finite, >= 0; 0 if ranks give none
  uint64_t min_clock = 0;
  uint64_t sequence = 0;
  uint64_t payload_checksum = 0;

  bool operator==(const Header&) const = default;
};

// A frame in the form that endpoints use: decoded header, payload of any size (also 0).
struct Frame {
  Header header;
  Bytes payload;
  // Travels with the header unchanged; only a SealedEndpoint sets or reads it.
  std::optional<std::array<std::byte, kSealBytes>> seal = {};
  // Received frame: its payload came by reference. Frame to be sent: it must go by reference.
  bool by_reference = false;
  // Received frame: its payload, if it has no other user. Null otherwise.
  std::byte* writable = nullptr;
};

// Return the XXH3-64 of the bytes; 0 for none. The second computes it once for all copies of
// `payload`.
uint64_t Checksum(absl::Span<const std::byte> payload);
uint64_t PayloadChecksum(const Bytes& payload);
// Returns the payload_checksum of a frame that an endpoint sends.
uint64_t ChecksumToSend(const Frame& frame);

// Writes the header for a payload of `payload_bytes`; header.payload_checksum must be set already.
std::array<std::byte, kHeaderBytes> EncodeHeader(const Header& header, uint64_t payload_bytes);

// Limits against which a frame is checked before any use.
struct Limits {
  uint64_t payload_bytes_max = kFramePayloadBytesMax;
};

// Decodes and checks one frame: sizes, magic, version, checksums, reserved bits, known values, and
// that payload size, element_count, dtype and codec agree. `has_seal`: a seal came with the header.
// Errors, after which header and payload must not be used: InvalidArgument naming the field.
absl::Status Decode(absl::Span<const std::byte> header_bytes, absl::Span<const std::byte> payload,
                    const Limits& limits, Header* header, bool has_seal = false);

// Encodes the payload of kSeed: each checksum as u64, little-endian. kAttach has a single one.
std::vector<std::byte> EncodeChecksums(absl::Span<const uint64_t> checksums);
// Returns the checksum at `index`. REQUIRES: index < payload.size() / 8.
uint64_t ChecksumAt(absl::Span<const std::byte> payload, size_t index);

// One line for logs: op, job, node, chunk, clock, sizes.
std::string Describe(const Header& header);

}  // namespace strata::wire

#endif  // STRATA_COMMON_WIRE_FRAME_H_
