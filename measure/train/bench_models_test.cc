#include "measure/train/bench_models.h"

#include "common/job/job.h"
#include "common/job/zoo/zoo.h"
#include "gtest/gtest.h"

namespace strata::bench {
namespace {

TEST(BenchModelsTest, AreGivenByNameOrInGroupsEachOnce) {
  EXPECT_EQ(*ParseModels({"cnn", "mlp"}), (std::vector<std::string>{"cnn", "mlp"}));
  EXPECT_EQ(*ParseModels({"all"}), ZooNames());
  EXPECT_EQ(*ParseModels({"cnn", "small"}),
            (std::vector<std::string>{"cnn", "mlp", "lenet5", "resnet8", "resnet20"}));
}

TEST(BenchModelsTest, OneThatIsNoneIsRefusedByName) {
  const absl::Status status = ParseModels({"mlp", "pigeon"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, 29), "--models pigeon: not one of m");
}

TEST(BenchModelsTest, TheJobOfEachModelOfTheZooIsValid) {
  for (const std::string& model : ZooNames()) {
    auto job = ParseJob(MakeJobText(model, 0, false), model);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->model().zoo(), model);
    FillDefaults(&*job);
    job->set_max_steps(1);
    EXPECT_TRUE(ValidateJob(*job).ok()) << ValidateJob(*job);
  }
}

TEST(BenchModelsTest, BatchesAreSmallerWhereImagesAreLargeUnlessOnAGpuOrSaid) {
  auto batch = [](const std::string& model, uint32_t said, bool on_gpu) {
    return ParseJob(MakeJobText(model, said, on_gpu), "")->data().batch_per_rank();
  };
  EXPECT_EQ(batch("lenet5", 0, false), 64u);
  EXPECT_EQ(batch("resnet50", 0, false), 8u);
  EXPECT_EQ(batch("resnet50", 0, true), 64u);
  EXPECT_EQ(batch("resnet50", 5, true), 5u);
}

}  // namespace
}  // namespace strata::bench
