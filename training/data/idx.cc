#include "training/data/idx.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/atomic_file.h"

namespace strata::training {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
constexpr char kTrainLabels[] = "train-labels-idx1-ubyte";

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

// A file that is read sequentially, and decompressed if it is gzip.
class Input {
 public:
  static absl::StatusOr<Input> Open(const std::string& path) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0) {
      return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
    }
    if (!S_ISREG(facts.st_mode)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": not a file"));
    }
    absl::StatusOr<UniqueFd> fd = OpenRegularFile(path);
    if (!fd.ok()) return fd.status();
    gzFile file = gzdopen(fd->get(), "rb");
    if (file == nullptr) return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory"));
    fd->Release();  // the file's own now
    gzbuffer(file, 1 << 17);
    return Input(path, file);
  }

  // Reads up to `size` bytes; fewer only at the end. DataLoss where the gzip stream is damaged.
  absl::StatusOr<uint64_t> Read(uint8_t* to, uint64_t size) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(size));
    int error = Z_OK;
    const char* text = gzerror(file_.get(), &error);
    if (error == Z_BUF_ERROR) {
      return absl::DataLossError(absl::StrCat(path_, ": truncated (the gzip stream ends early)"));
    }
    if (error == Z_ERRNO) {
      return absl::DataLossError(absl::StrCat(path_, ": ", std::strerror(errno)));
    }
    if (got < 0 || error != Z_OK) {
      return absl::DataLossError(absl::StrCat(path_, ": corrupt gzip data: ", text));
    }
    return static_cast<uint64_t>(got);
  }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };
  Input(const std::string& path, gzFile file) : path_(path), file_(file) {}

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

absl::StatusOr<std::vector<uint32_t>> ReadHeader(const std::string& path, uint32_t dimensions,
                                                 Input* input) {
  std::vector<uint8_t> header(4 + 4 * size_t{dimensions});
  auto got = input->Read(header.data(), header.size());
  if (!got.ok()) return got.status();
  const uint32_t magic = *got >= 4 ? BigEndian(header.data()) : 0;
  if (*got >= 4 && magic != (0x0800 | dimensions)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not an IDX file of bytes with ", dimensions, " dimensions"));
  }
  if (*got < header.size()) {
    return absl::DataLossError(absl::StrCat(path, ": truncated (no complete IDX header)"));
  }
  std::vector<uint32_t> sizes;
  uint64_t product = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    sizes.push_back(BigEndian(&header[4 + 4 * size_t{i}]));
    if (sizes.back() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": dimension ", i, " is 0"));
    }
    // Each factor is below 2^32 and the product so far at most 2^31: no overflow.
    product *= sizes.back();
    if (product > kIdxBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": claims more than the ", kIdxBytesMax, " bytes that are read"));
    }
  }
  return sizes;
}

// `name` in `dir`, or with .gz where only that exists.
std::string FindFile(const std::string& dir, const std::string& name) {
  const std::string plain = absl::StrCat(dir, "/", name);
  struct stat facts {};
  if (stat(plain.c_str(), &facts) == 0) return plain;
  const std::string packed = plain + ".gz";
  return stat(packed.c_str(), &facts) == 0 ? packed : plain;
}

absl::StatusOr<Dataset> ReadPair(const std::string& images_path, const std::string& labels_path) {
  auto labels = ReadIdx(labels_path, 1);
  if (!labels.ok()) return labels.status();
  auto images = ReadIdx(images_path, 3);
  if (!images.ok()) return images.status();
  if (images->dimensions[0] != labels->dimensions[0]) {
    return absl::InvalidArgumentError(absl::StrCat(images_path, " holds ", images->dimensions[0],
                                                   " images, but ", labels_path, " holds ",
                                                   labels->dimensions[0], " labels"));
  }
  for (size_t i = 0; i < labels->values.size(); ++i) {
    if (labels->values[i] >= kIdxClasses) {
      return absl::InvalidArgumentError(absl::StrCat(labels_path, ": the label of sample ", i,
                                                     " is not in 0 to ", kIdxClasses - 1));
    }
  }
  Dataset data;
  data.channels = 1;
  data.height = images->dimensions[1];
  data.width = images->dimensions[2];
  data.classes = kIdxClasses;
  data.pixels = std::move(images->values);
  data.labels.assign(labels->values.begin(), labels->values.end());
  return data;
}

}  // namespace

absl::StatusOr<IdxArray> ReadIdx(const std::string& path, uint32_t dimensions) {
  auto input = Input::Open(path);
  if (!input.ok()) return input.status();
  auto sizes = ReadHeader(path, dimensions, &*input);
  if (!sizes.ok()) return sizes.status();
  uint64_t expected = 1;
  for (uint32_t size : *sizes) expected *= size;

  IdxArray array;
  array.dimensions = *std::move(sizes);
  while (array.values.size() < expected) {
    const uint64_t begin = array.values.size();
    const uint64_t wanted = std::min(expected - begin, kBlockBytes);
    array.values.resize(begin + wanted);
    auto got = input->Read(array.values.data() + begin, wanted);
    if (!got.ok()) return got.status();
    if (*got < wanted) {
      return absl::DataLossError(absl::StrCat(path, ": truncated (", begin + *got, " of ", expected,
                                              " bytes after the header)"));
    }
  }
  // Reading on past the content makes zlib check the stream's checksum and length.
  uint8_t extra;
  auto rest = input->Read(&extra, 1);
  if (!rest.ok()) return rest.status();
  if (*rest != 0) {
    return absl::DataLossError(absl::StrCat(path, ": more bytes than the header says"));
  }
  return array;
}

absl::StatusOr<TrainAndTest> ReadIdxFolder(const std::string& dir) {
  auto train = ReadPair(FindFile(dir, "train-images-idx3-ubyte"), FindFile(dir, kTrainLabels));
  if (!train.ok()) return train.status();
  const std::string test_images = FindFile(dir, "t10k-images-idx3-ubyte");
  auto test = ReadPair(test_images, FindFile(dir, "t10k-labels-idx1-ubyte"));
  if (!test.ok()) return test.status();
  if (train->height != test->height || train->width != test->width) {
    return absl::InvalidArgumentError(absl::StrCat(test_images, ": images of ", test->height, " x ",
                                                   test->width, ", but those for training have ",
                                                   train->height, " x ", train->width));
  }
  return TrainAndTest{*std::move(train), *std::move(test)};
}

absl::StatusOr<uint64_t> CountIdxTrainingSamples(const std::string& dir) {
  const std::string path = FindFile(dir, kTrainLabels);
  auto input = Input::Open(path);
  if (!input.ok()) return input.status();
  const auto sizes = ReadHeader(path, 1, &*input);
  if (!sizes.ok()) return sizes.status();
  return sizes->front();
}

}  // namespace strata::training
