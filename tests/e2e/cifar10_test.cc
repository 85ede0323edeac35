// ResNet-20 on files of CIFAR-10's format, from the example to a trained model.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "training/data/synthetic.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using training::Dataset;

// Samples [begin, end) as CIFAR-10 writes them.
void WriteFile(const std::string& path, const Dataset& data, uint64_t begin, uint64_t end) {
  std::ofstream file(path, std::ios::binary);
  std::string pixels(data.PixelsPerImage(), '\0');
  for (uint64_t sample = begin; sample < end; ++sample) {
    data.maker->Make(sample, reinterpret_cast<uint8_t*>(pixels.data()));
    file << static_cast<char>(data.labels[sample]) << pixels;
  }
}

// Writes the six files into a folder: 500 synthetic training samples and 100 test samples.
std::string WriteFolder() {
  proto::SyntheticImageNet config;
  config.set_classes(10);
  config.set_size(32);
  config.set_train_samples(500);
  config.set_test_samples(100);
  const auto sets = training::MakeSyntheticImageNet(config, 1).value();
  const std::string dir = TestDir() + "/cifar-10-batches-bin";
  std::filesystem::create_directories(dir);
  for (int i = 0; i < 5; ++i) {
    WriteFile(absl::StrCat(dir, "/data_batch_", i + 1, ".bin"), sets.train, 100 * i, 100 * i + 100);
  }
  WriteFile(dir + "/test_batch.bin", sets.test, 0, 100);
  return dir;
}

// The example with two ranks on two nodes, 45 steps of 32 samples.
CommandResult RunExample(const std::string& dir) {
  return RunStrata({"local",
                    "--servers",
                    "1",
                    "--nodes",
                    "2",
                    "--slots",
                    "1",
                    "--runs",
                    TestDir() + "/runs",
                    "--job",
                    "examples/resnet20_cifar10.textproto",
                    "--set",
                    "data.cifar10.dir=" + dir,
                    "--set",
                    "data.batch_per_rank=16",
                    "--set",
                    "ranks=2",
                    "--set",
                    "epochs=3",
                    "--set",
                    "schedule.constant={}",
                    "--set",
                    "schedule.base_lr=0.02"});
}

TEST(Cifar10, ResNet20LearnsItFromTheExample) {
  const CommandResult result = RunExample(WriteFolder());
  EXPECT_EQ(result.status.code, 0) << result.err;
  const std::string run = TestDir() + "/runs/resnet20-cifar10-1";
  EXPECT_GT(FinalAccuracy(Metrics(run)), 0.8);  // of ten classes
  EXPECT_GT(std::filesystem::file_size(run + "/model.safetensors"), 269'722u * 4);
}

TEST(Cifar10, ADamagedFileFailsTheJobByName) {
  const std::string dir = WriteFolder();
  std::filesystem::resize_file(dir + "/data_batch_3.bin", 307299);
  const CommandResult result = RunExample(dir);
  EXPECT_EQ(result.status.code, 1);
  EXPECT_THAT(result.err, HasSubstr(dir + "/data_batch_3.bin: 307299 bytes are not a whole number "
                                          "of CIFAR-10 samples of 3073 bytes\n"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

TEST(Cifar10, AModelThatDoesNotTakeItsImagesIsRefusedBeforeAnythingRuns) {
  const CommandResult result = RunStrata(
      {"local", "--job", "examples/resnet20_cifar10.textproto", "--set", "model.zoo=alexnet"});
  EXPECT_EQ(result.status.code, 2);
  EXPECT_EQ(result.err,
            "strata: error: --set model.zoo=alexnet: model alexnet does not fit data.cifar10 "
            "(images of 3 x 32 x 32, 10 "
            "classes): it needs at least 63 x 63\n");
}

}  // namespace
}  // namespace strata::tests
