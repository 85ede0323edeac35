#include "common/image/image_stream.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/aligned_memory.h"
#include "common/image/image_file.h"
#include "common/require.h"

namespace strata {

absl::Status ImageStream::Take(absl::Span<const char> bytes, std::vector<ChunkImage>* images) {
  STRATA_REQUIRE(bytes.size() <= bytes_ - taken_);
  taken_ += bytes.size();
  absl::Status status;
  while (status.ok() && !has_layout_ && !bytes.empty()) status = TakeHead(&bytes);
  while (status.ok() && has_layout_ && next_ < tensors_.size()) {
    const TensorPlace& tensor = tensors_[next_];
    if (bytes.empty() && filled_ < tensor.end - tensor.begin) break;
    status = TakeValues(&bytes, images);
  }
  return status;
}

absl::Status ImageStream::TakeHead(absl::Span<const char>* bytes) {
  const uint64_t wanted = head_bytes_ > 0 ? head_bytes_ : kSafetensorsLengthBytes;
  const size_t size = std::min<uint64_t>(bytes->size(), wanted - head_.size());
  head_.append(bytes->data(), size);
  bytes->remove_prefix(size);
  if (head_.size() < wanted) return absl::OkStatus();
  if (head_bytes_ == 0) {
    const absl::StatusOr<uint64_t> head = SafetensorsHeadBytes(head_, bytes_, path_);
    if (!head.ok()) return head.status();
    head_bytes_ = *head;
  }
  return head_.size() < head_bytes_ ? absl::OkStatus() : ReadHead();
}

absl::Status ImageStream::ReadHead() {
  absl::StatusOr<SafetensorsLayout> layout = ReadSafetensorsHead(head_, bytes_, path_);
  if (!layout.ok()) return layout.status();
  head_ = std::string();
  has_layout_ = true;
  tensors_ = std::move(layout->tensors);
  ImageReader file(path_);
  absl::Status status = file.SetTexts(std::move(layout->metadata), kImageFormat);
  if (!status.ok()) return status;
  // Read as a whole it would be of no use.
  if (head_bytes_ % sizeof(float) != 0 && !tensors_.empty()) {
    return file.Misplaced(tensors_[0].name);
  }
  for (const auto& [name, counts] : file.texts()) images_[name].counts = counts;
  for (const TensorPlace& tensor : tensors_) {
    const auto image = images_.find(tensor.name.substr(0, tensor.name.find('/')));
    if (image == images_.end()) return file.Wrong(tensor.name, "belongs to no image");
    ++image->second.tensors;
  }
  for (const auto& [name, image] : images_) {
    if (image.tensors == 0) return TakeImage(&file, name, image.counts).status();
  }
  return absl::OkStatus();
}

absl::Status ImageStream::TakeValues(absl::Span<const char>* bytes,
                                     std::vector<ChunkImage>* images) {
  const TensorPlace& tensor = tensors_[next_];
  const uint64_t size = tensor.end - tensor.begin;
  if (values_ == nullptr) values_ = AlignedMemory(size);
  if (values_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": no memory for ", size, " bytes of ", tensor.name));
  }
  const size_t part = std::min<uint64_t>(bytes->size(), size - filled_);
  if (part > 0) std::memcpy(values_.get() + filled_, bytes->data(), part);
  bytes->remove_prefix(part);
  filled_ += part;
  return filled_ < size ? absl::OkStatus() : Complete(tensor, images);
}

absl::Status ImageStream::Complete(const TensorPlace& tensor, std::vector<ChunkImage>* images) {
  ++next_;
  const auto it = images_.find(tensor.name.substr(0, tensor.name.find('/')));
  STRATA_REQUIRE(it != images_.end());
  Image& image = it->second;
  image.floats.emplace_back(tensor.name, Bytes(values_, values_.get(), std::exchange(filled_, 0)));
  values_.reset();
  if (image.floats.size() < image.tensors) return absl::OkStatus();
  ImageReader file(path_);
  for (const auto& [name, floats] : image.floats) {
    if (absl::Status status = file.AddFloats(name, floats); !status.ok()) return status;
  }
  absl::StatusOr<ChunkImage> made = TakeImage(&file, it->first, image.counts);
  if (!made.ok()) return made.status();
  if (absl::Status status = file.ExpectAllTaken(); !status.ok()) return status;
  image.floats.clear();
  ranges_.emplace_back(made->begin, made->weights.weights.float_count());
  images->push_back(*std::move(made));
  return absl::OkStatus();
}

absl::Status ImageStream::Finish() {
  STRATA_REQUIRE(taken_ == bytes_);
  // A file that ends within its head.
  if (!has_layout_) return SafetensorsHeadBytes(head_, bytes_, path_).status();
  std::sort(ranges_.begin(), ranges_.end());
  for (size_t i = 0; i + 1 < ranges_.size(); ++i) {
    const auto& [begin, elements] = ranges_[i];
    if (ranges_[i + 1].first - begin < elements) return OverlapError(begin, path_);
  }
  return absl::OkStatus();
}

}  // namespace strata
