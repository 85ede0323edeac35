#include "training/data/cifar10.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/atomic_file.h"

namespace strata::training {
namespace {

constexpr uint64_t kSampleBytes = 1 + kCifar10Pixels;
constexpr int kTrainFiles = 5;

std::string TrainPath(const std::string& dir, int number) {
  return absl::StrCat(dir, "/data_batch_", number, ".bin");
}

// By the file's size.
absl::StatusOr<uint64_t> SamplesIn(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a file"));
  }
  const uint64_t bytes = static_cast<uint64_t>(facts.st_size);
  if (bytes > kCifar10BytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", bytes, " bytes are more than the ",
                                                   kCifar10BytesMax, " that are read"));
  }
  if (bytes == 0 || bytes % kSampleBytes != 0) {
    return absl::DataLossError(absl::StrCat(path, ": ", bytes,
                                            " bytes are not a whole number of CIFAR-10 samples of ",
                                            kSampleBytes, " bytes"));
  }
  return bytes / kSampleBytes;
}

// Adds a file's samples to `data`.
absl::Status Append(const std::string& path, Dataset* data) {
  const auto samples = SamplesIn(path);
  if (!samples.ok()) return samples.status();
  const absl::StatusOr<UniqueFd> file = OpenRegularFile(path);
  if (!file.ok()) return file.status();
  data->pixels.reserve(data->pixels.size() + *samples * kCifar10Pixels);
  data->labels.reserve(data->labels.size() + *samples);
  std::vector<uint8_t> sample(kSampleBytes);
  for (uint64_t i = 0; i < *samples; ++i) {
    const auto offset = static_cast<off_t>(i * kSampleBytes);
    if (pread(file->get(), sample.data(), kSampleBytes, offset) != ssize_t{kSampleBytes}) {
      return absl::DataLossError(absl::StrCat(path, ": ends within sample ", i));
    }
    if (sample[0] >= kCifar10Classes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": the label of sample ", i, " is not in 0 to ", kCifar10Classes - 1));
    }
    data->labels.push_back(sample[0]);
    data->pixels.insert(data->pixels.end(), sample.begin() + 1, sample.end());
  }
  return absl::OkStatus();
}

Dataset Empty() {
  Dataset data;
  data.channels = 3;
  data.height = data.width = 32;
  data.classes = kCifar10Classes;
  return data;
}

}  // namespace

absl::StatusOr<Dataset> ReadCifar10File(const std::string& path) {
  Dataset data = Empty();
  if (auto status = Append(path, &data); !status.ok()) return status;
  return data;
}

absl::StatusOr<TrainAndTest> ReadCifar10Folder(const std::string& dir) {
  TrainAndTest sets{Empty(), Empty()};
  for (int number = 1; number <= kTrainFiles; ++number) {
    auto status = Append(TrainPath(dir, number), &sets.train);
    if (!status.ok()) return status;
  }
  if (auto status = Append(dir + "/test_batch.bin", &sets.test); !status.ok()) return status;
  return sets;
}

absl::StatusOr<uint64_t> CountCifar10TrainingSamples(const std::string& dir) {
  uint64_t sum = 0;
  for (int number = 1; number <= kTrainFiles; ++number) {
    const auto samples = SamplesIn(TrainPath(dir, number));
    if (!samples.ok()) return samples.status();
    sum += *samples;
  }
  return sum;
}

}  // namespace strata::training
