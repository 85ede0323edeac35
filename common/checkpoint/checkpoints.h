#ifndef STRATA_COMMON_CHECKPOINT_CHECKPOINTS_H_
#define STRATA_COMMON_CHECKPOINT_CHECKPOINTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "proto/record.pb.h"

namespace strata {

// Returns whether an error means that a checkpoint or one of its objects is damaged, so that
// another checkpoint may be whole. Other errors come from the store.
bool IsDamage(const absl::Status& status);

// The checkpoints of one job in a store. That of clock T is a folder, and exists once its manifest
// is there, which is written last and deleted first. No object says which one is the newest: what
// lists them finds that out.
//
// Threads: one.
class Checkpoints {
 public:
  // `store` outlives it.
  explicit Checkpoints(Store& store) : store_(store) {}

  // Returns the name of an object of the checkpoint of `clock`; `part` is a part of a name.
  static std::string ObjectName(uint64_t clock, const std::string& part);

  // Makes a checkpoint of objects that have all been put. Errors: of the store, and AlreadyExists:
  // there is a manifest of that clock, which stays; nothing is deleted then.
  absl::Status Complete(const Manifest& manifest);

  struct Listing {
    std::vector<Manifest> complete;  // newest first
    // By clock: manifests that cannot be used, or not now, and why.
    std::map<uint64_t, absl::Status> broken;
    std::set<uint64_t> clocks;  // of all that has an object here, complete or not
  };
  // Looks only at manifests.
  absl::StatusOr<Listing> List();
  // Returns the newest one whose objects are all whole, having read them; `passed_over` says why
  // newer ones were not taken. Errors: NotFound: there is none.
  absl::StatusOr<Manifest> Newest(std::vector<absl::Status>* passed_over);

  // Returns an object. Errors: NotFound, DataLoss naming it: its size or checksum differs.
  absl::StatusOr<Bytes> Read(const ObjectFacts& object);
  // Passes an object on in pieces, like Store::Read. A wrong size or checksum may show only after
  // everything has been passed on, and takes precedence over an InvalidArgument of `take`.
  absl::Status Read(const ObjectFacts& object, const Store::TakePiece& take);
  // Reads all objects. Errors: that of the first one that is not whole.
  absl::Status Verify(const Manifest& manifest);

  // Deletes all but the newest `keep` checkpoints, and leftovers of older ones that were never
  // complete. Anything newer than the newest stays: it may become complete. So do checkpoints whose
  // manifest cannot be used: another version may read them, or a later try. REQUIRES: keep >= 1,
  // and the newest is whole: a job that resumes from an older one calls DropAfter first.
  absl::Status Prune(uint32_t keep);
  // Deletes a checkpoint, its manifest first: without it the checkpoint no longer counts. REQUIRES:
  // as DropAfter.
  absl::Status Drop(uint64_t clock);
  // Deletes everything newer than a clock, complete or not: the job resumes there and writes those
  // checkpoints again. REQUIRES: no process writes them now.
  absl::Status DropAfter(uint64_t clock);

 private:
  absl::Status CheckSize(const ObjectFacts& object, uint64_t bytes) const;
  absl::Status CheckSum(const ObjectFacts& object, uint64_t checksum) const;
  absl::StatusOr<Manifest> ReadManifest(const std::string& name);

  Store& store_;
};

// An object of the checkpoint that a job resumes from.
struct ResumeObject {
  Bytes content;
  std::string path;  // for errors
};

// Reads one, by its index. Errors: InvalidArgument: no such index; those of Checkpoints::Read.
absl::StatusOr<ResumeObject> ReadResumeObject(const proto::Resume& resume, uint32_t index,
                                              Store& store);

// Passes one on in pieces, like Checkpoints::Read.
absl::Status ReadResumeObject(const proto::Resume& resume, uint32_t index, Store& store,
                              const Store::TakePiece& take);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_CHECKPOINTS_H_
