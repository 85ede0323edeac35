#include "common/job/check_data.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/number_check.h"
#include "common/job/zoo/zoo.h"

namespace strata {
namespace {

constexpr uint32_t kClassesMax = 65536;  // labels have 16 bits
constexpr uint64_t kSampleElementsMax = 1 << 24;
constexpr uint64_t kSamplesMax = 1 << 26;

absl::Status CheckSynthetic(const proto::Synthetic& data) {
  const absl::Status sizes = All({InRange("data.synthetic.classes", data.classes(), 2, kClassesMax),
                                  InRange("data.synthetic.channels", data.channels(), 1, 65536),
                                  InRange("data.synthetic.height", data.height(), 1, 65536),
                                  InRange("data.synthetic.width", data.width(), 1, 65536)});
  if (!sizes.ok()) return sizes;
  const uint64_t elements = static_cast<uint64_t>(data.channels()) * data.height() * data.width();
  return InRange("data.synthetic: channels * height * width", elements, 1, kSampleElementsMax);
}

absl::Status CheckSyntheticImageNet(const proto::SyntheticImageNet& data) {
  return All(
      {InRange("data.synthetic_imagenet.classes", data.classes(), 2, kClassesMax),
       InRange("data.synthetic_imagenet.size", data.size(), 16, 1024),
       InRange("data.synthetic_imagenet.train_samples", data.train_samples(), 1, kSamplesMax),
       InRange("data.synthetic_imagenet.test_samples", data.test_samples(), 1, kSamplesMax)});
}

absl::Status CheckSource(const proto::Data& data) {
  switch (data.source_case()) {
    case proto::Data::SOURCE_NOT_SET:
      return Refuse(
          "data.idx, data.synthetic, data.cifar10, data.synthetic_imagenet: one of them is "
          "required");
    case proto::Data::kIdx:
      return data.idx().dir().empty() ? Refuse("data.idx.dir: is required") : absl::OkStatus();
    case proto::Data::kCifar10:
      return data.cifar10().dir().empty() ? Refuse("data.cifar10.dir: is required")
                                          : absl::OkStatus();
    case proto::Data::kSynthetic:
      return CheckSynthetic(data.synthetic());
    case proto::Data::kSyntheticImagenet:
      return CheckSyntheticImageNet(data.synthetic_imagenet());
  }
  return absl::OkStatus();
}

// A whole batch of every rank must fit into an epoch, where its size is known from the job alone.
absl::Status CheckEpochHoldsABatch(const proto::Job& job) {
  const proto::Data& data = job.data();
  uint64_t samples = data.limit_train();
  const char* field = "data.limit_train";
  const auto take = [&](const char* from, uint64_t count) {
    if (samples == 0 || count < samples) {
      samples = count;
      field = from;
    }
  };
  if (data.has_synthetic()) {
    take("data.synthetic.train_samples", data.synthetic().train_samples());
  }
  if (data.has_synthetic_imagenet()) {
    take("data.synthetic_imagenet.train_samples", data.synthetic_imagenet().train_samples());
  }
  const uint32_t ranks = std::max(job.ranks(), job.ranks_max());
  const uint64_t batch = static_cast<uint64_t>(data.batch_per_rank()) * ranks;
  if (samples == 0 || samples >= batch) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s: %d is less than one step of all ranks (%d x %d = %d)", field,
                                samples, ranks, data.batch_per_rank(), batch));
}

// The images' shape and the field that says so, where the job alone tells: IDX files have any.
std::optional<std::pair<const char*, ImageShape>> ImagesOf(const proto::Data& data) {
  if (data.has_cifar10()) return std::pair("data.cifar10", ImageShape{3, 32, 32, 10});
  if (data.has_synthetic()) {
    const proto::Synthetic& of = data.synthetic();
    return std::pair("data.synthetic",
                     ImageShape{of.channels(), of.height(), of.width(), of.classes()});
  }
  if (data.has_synthetic_imagenet()) {
    const proto::SyntheticImageNet& of = data.synthetic_imagenet();
    return std::pair("data.synthetic_imagenet", ImageShape{3, of.size(), of.size(), of.classes()});
  }
  return std::nullopt;
}

}  // namespace

absl::Status CheckData(const proto::Job& job) {
  if (!job.has_data()) return absl::OkStatus();
  const absl::Status fields =
      All({InRange("data.batch_per_rank", job.data().batch_per_rank(), 1, kBatchMax),
           CheckSource(job.data()), CheckEpochHoldsABatch(job)});
  if (!fields.ok()) return fields;
  const auto images = ImagesOf(job.data());
  if (!images.has_value()) return absl::OkStatus();
  return CheckZooInput(job.model().zoo(), images->first, images->second);
}

}  // namespace strata
