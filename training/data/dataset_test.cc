#include "training/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "training/data/cifar10.h"

namespace strata::training {
namespace {

TEST(Normalisation, GivesZeroMeanAndUnitDeviation) {
  Dataset data;
  data.channels = data.height = 1;
  data.width = 2;
  data.classes = 2;
  data.pixels = {0, 10, 20, 30};
  data.labels = {0, 1};
  const Normalisation normalisation = Normalisation::Of(data);
  float images[4];
  uint16_t labels[2];
  FillBatch(data, normalisation, {1, 0}, images, labels);
  // Deviation of 0, 10, 20, 30: the root of 125.
  const float unit = 11.18034f;
  EXPECT_NEAR(images[0], 5 / unit, 1e-5);
  EXPECT_NEAR(images[1], 15 / unit, 1e-5);
  EXPECT_NEAR(images[2], -15 / unit, 1e-5);
  EXPECT_NEAR(images[3], -5 / unit, 1e-5);
  EXPECT_EQ(labels[0], 1);
  EXPECT_EQ(labels[1], 0);
}

TEST(Normalisation, IsOfEachChannelForItself) {
  Dataset data;
  data.channels = 2;
  data.height = data.width = 1;
  data.classes = 2;
  data.pixels = {10, 100, 30, 104};
  data.labels = {0, 1};
  float images[4];
  uint16_t labels[2];
  FillBatch(data, Normalisation::Of(data), {0, 1}, images, labels);
  EXPECT_NEAR(images[0], -1, 1e-5);
  EXPECT_NEAR(images[1], -1, 1e-5);
  EXPECT_NEAR(images[2], 1, 1e-5);
  EXPECT_NEAR(images[3], 1, 1e-5);
}

TEST(Normalisation, OfEqualPixelsOnlyTakesTheMeanOff) {
  Dataset data;
  data.channels = data.height = data.width = 1;
  data.classes = 2;
  data.pixels = {51, 51};
  data.labels = {0, 1};
  float image;
  uint16_t label;
  FillBatch(data, Normalisation::Of(data), {1}, &image, &label);
  EXPECT_NEAR(image, 0, 1e-6);
  FillBatch(data, {}, {1}, &image, &label);
  EXPECT_FLOAT_EQ(image, 0.2f);
}

TEST(LoadData, SaysWhichFieldTheImagesComeFrom) {
  proto::Data config;
  EXPECT_EQ(LoadData(config, 1).status().code(), absl::StatusCode::kInvalidArgument);
  config.mutable_synthetic()->set_train_samples(8);
  EXPECT_EQ(LoadData(config, 1)->train.name, "data.synthetic");
  config.mutable_synthetic_imagenet()->set_train_samples(8);
  EXPECT_EQ(LoadData(config, 1)->test.name, "data.synthetic_imagenet");
}

using ::testing::ElementsAre;

// A label, and pixels that count up from `first`.
std::string Sample(char label, int first) {
  std::string bytes(1, label);
  for (uint32_t i = 0; i < kCifar10Pixels; ++i) bytes.push_back(static_cast<char>(first + i));
  return bytes;
}

class Cifar10Test : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/cifar10." +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
    // Sample i of file n has label n and pixels from 10 n + i on; file n has n samples.
    for (int n = 1; n <= 5; ++n) {
      std::string bytes;
      for (int i = 0; i < n; ++i) bytes += Sample(static_cast<char>(n), 10 * n + i);
      Write("data_batch_" + std::to_string(n) + ".bin", bytes);
    }
    Write("test_batch.bin", Sample(9, 0));
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  void ExpectError(absl::StatusCode code, const std::string& line) {
    const absl::Status status = ReadCifar10Folder(dir_).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), line);
  }

  std::string dir_;
};

TEST_F(Cifar10Test, ReadsTheFiveFilesInOrderAndTheTestFile) {
  const auto data = ReadCifar10Folder(dir_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->train.labels, ElementsAre(1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5));
  EXPECT_THAT(data->test.labels, ElementsAre(9));
  EXPECT_EQ(data->train.channels, 3u);
  EXPECT_EQ(data->train.height, 32u);
  EXPECT_EQ(data->train.width, 32u);
  EXPECT_EQ(data->train.classes, 10u);
  ASSERT_EQ(data->train.pixels.size(), 15u * 3072);
  // The second sample of the third file, fourth in all but one.
  EXPECT_EQ(data->train.pixels[4 * 3072], 31);
  EXPECT_EQ(data->train.pixels[4 * 3072 + 1024], static_cast<uint8_t>(31 + 1024));
  EXPECT_EQ(data->test.pixels[3071], static_cast<uint8_t>(3071));
}

TEST_F(Cifar10Test, TrainingSamplesAreCountedAsTheyWouldBeLoaded) {
  proto::Data config;
  config.mutable_cifar10()->set_dir(dir_);
  EXPECT_EQ(*CountTrainingSamples(config), 15u);
  EXPECT_EQ(LoadData(config, 1)->train.size(), 15u);
  EXPECT_EQ(LoadData(config, 1)->train.name, "data.cifar10 " + dir_);
  config.set_limit_train(4);
  EXPECT_EQ(*CountTrainingSamples(config), 4u);
  EXPECT_EQ(LoadData(config, 1)->train.pixels.size(), 4u * 3072);
  std::filesystem::remove(dir_ + "/data_batch_5.bin");
  EXPECT_EQ(CountTrainingSamples(config).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(Cifar10Test, NoneOfTheSixFilesMayBeMissing) {
  for (const char* name : {"data_batch_4.bin", "test_batch.bin"}) {
    std::filesystem::rename(dir_ + "/" + name, dir_ + "/away");
    ExpectError(absl::StatusCode::kNotFound, dir_ + "/" + name + ": No such file or directory");
    std::filesystem::rename(dir_ + "/away", dir_ + "/" + name);
  }
}

TEST_F(Cifar10Test, SizesThatAreNoWholeNumberOfSamplesAreRefused) {
  const std::string sample = Sample(1, 0);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{3072}, size_t{3074}, size_t{6145}}) {
    const std::string path = Write("data_batch_2.bin", (sample + sample + sample).substr(0, size));
    ExpectError(absl::StatusCode::kDataLoss,
                path + ": " + std::to_string(size) +
                    " bytes are not a whole number of CIFAR-10 samples of 3073 bytes");
  }
}

TEST_F(Cifar10Test, NobodyWaitsForAPipe) {
  std::filesystem::remove(dir_ + "/test_batch.bin");
  ASSERT_EQ(mkfifo((dir_ + "/test_batch.bin").c_str(), 0600), 0);
  ExpectError(absl::StatusCode::kInvalidArgument, dir_ + "/test_batch.bin: not a file");
}

TEST_F(Cifar10Test, LabelOutOfRangeIsNamed) {
  const std::string path = Write("test_batch.bin", Sample(9, 0) + Sample(10, 0));
  ExpectError(absl::StatusCode::kInvalidArgument,
              path + ": the label of sample 1 is not in 0 to 9");
}

TEST_F(Cifar10Test, DirectoryInPlaceOfAFileAndHugeFilesAreRefused) {
  std::filesystem::remove(dir_ + "/test_batch.bin");
  std::filesystem::create_directory(dir_ + "/test_batch.bin");
  ExpectError(absl::StatusCode::kInvalidArgument, dir_ + "/test_batch.bin: not a file");
  const std::string path = dir_ + "/data_batch_1.bin";
  std::filesystem::resize_file(path, uint64_t{3073} << 20);
  ExpectError(absl::StatusCode::kInvalidArgument,
              path + ": 3222274048 bytes are more than the 1073741824 that are read");
}

}  // namespace
}  // namespace strata::training
