#include "common/checkpoint/resume_object.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"

namespace strata {

namespace {

absl::StatusOr<ObjectFacts> ObjectAt(const proto::Resume& resume, uint32_t index) {
  if (index >= static_cast<uint32_t>(resume.objects_size())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("object %d of the checkpoint's %d", index, resume.objects_size()));
  }
  const proto::CheckpointObject& object = resume.objects(static_cast<int>(index));
  return ObjectFacts{.name = object.name(), .bytes = object.bytes(), .checksum = object.checksum()};
}

}  // namespace

absl::StatusOr<ResumeObject> ReadResumeObject(const proto::Resume& resume, uint32_t index,
                                              Store& store) {
  const absl::StatusOr<ObjectFacts> object = ObjectAt(resume, index);
  if (!object.ok()) return object.status();
  absl::StatusOr<Bytes> content = Checkpoints(store).Read(*object);
  if (!content.ok()) return content.status();
  return ResumeObject{.content = *std::move(content),
                      .path = absl::StrCat(store.where(), "/", object->name)};
}

absl::Status ReadResumeObject(const proto::Resume& resume, uint32_t index, Store& store,
                              const Store::TakePiece& take) {
  const absl::StatusOr<ObjectFacts> object = ObjectAt(resume, index);
  return object.ok() ? Checkpoints(store).Read(*object, take) : object.status();
}

}  // namespace strata
