#ifndef STRATA_SERVER_SHARD_CHUNK_CHUNK_COPY_H_
#define STRATA_SERVER_SHARD_CHUNK_CHUNK_COPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "kernels/kernels.h"
#include "server/shard/chunk/accumulator.h"
#include "server/shard/chunk/chunk_copy.pb.h"

namespace strata::server {

// The full state of a chunk at one moment, including incomplete clocks: another copy continues from
// it in the same way. Vectors are shared, not copied: they do not change any more.
struct ChunkCopy {
  proto::ChunkCopy head;
  std::vector<Bytes> vectors;  // indexed by number - 1

  // Adds a vector and returns its number; 0: it is empty. The same memory is added once.
  uint32_t Add(const Bytes& vector);
  void Add(const std::vector<SumPart>& parts,
           google::protobuf::RepeatedPtrField<proto::CopiedPart>* to);
  uint64_t bytes() const;  // total of all vectors
};

// Reads a copy received from a peer; any content is safe. The first error stays in status(); reads
// after it return empty values.
//
// Threads: one.
class ChunkCopyReader {
 public:
  // Both outlive this object; the chunk has `elements` elements.
  ChunkCopyReader(const ChunkCopy& copy, const kernels::Kernels& kernels, uint32_t elements)
      : copy_(copy), kernels_(kernels), elements_(elements) {}

  const proto::ChunkCopy& head() const { return copy_.head; }
  // Returns fp32 values, one per element of the chunk; empty: absent, which is permitted for
  // `what`.
  Bytes Floats(uint32_t number, const char* what);
  // The same, but it must be present.
  Bytes SomeFloats(uint32_t number, const char* what);
  // Returns the vector unchecked.
  Bytes Vector(uint32_t number, const char* what);
  // Returns parts of a sum, each of which is valid.
  std::vector<SumPart> Parts(const google::protobuf::RepeatedPtrField<proto::CopiedPart>& parts);

  void Fail(std::string what);
  void Fail(const absl::Status& status) {
    if (!status.ok()) Fail(std::string(status.message()));
  }
  // Errors: InvalidArgument naming the first error.
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  const ChunkCopy& copy_;
  const kernels::Kernels& kernels_;
  const uint32_t elements_;
  absl::Status status_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_COPY_H_
