#include "worker/client/connect/tensor_set.h"

#include "gtest/gtest.h"

namespace strata::client {
namespace {

Tensor Named(const std::string& name, std::vector<uint64_t> shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  return tensor;
}

std::vector<uint32_t> Publish(StepBook* book, int tensor) {
  std::vector<ChunkId> complete;
  book->Publish(tensor, &complete);
  std::vector<uint32_t> values;
  for (ChunkId chunk : complete) values.push_back(chunk.value());
  return values;
}

TEST(TensorSetTest, TensorsLieBackToBackInOrderOfRegistration) {
  TensorSet tensors;
  EXPECT_EQ(*tensors.Add(Named("b", {3})), 0);
  EXPECT_EQ(*tensors.Add(Named("w", {2, 5})), 1);
  EXPECT_EQ(*tensors.Add(Named("scalar", {})), 2);
  EXPECT_EQ(tensors.elements(), 14u);
  proto::Layout layout = tensors.Layout();
  EXPECT_TRUE(ValidateLayout(layout).ok()) << ValidateLayout(layout);
  EXPECT_EQ(layout.segments(1).offset(), 3u);
  EXPECT_EQ(layout.segments(2).offset(), 13u);
}

TEST(TensorSetTest, BadTensorsAreRefusedByName) {
  TensorSet tensors;
  EXPECT_EQ(tensors.Add(Named("", {1})).status().code(), absl::StatusCode::kInvalidArgument);
  absl::Status empty = tensors.Add(Named("conv", {4, 0})).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(empty.ToString().find("conv"), std::string::npos);
  const uint64_t huge = uint64_t{1} << 33;
  EXPECT_FALSE(tensors.Add(Named("huge", {huge, huge})).ok());
  Tensor half = Named("half", {1});
  float x = 0;
  half.weights = &x;
  EXPECT_FALSE(tensors.Add(half).ok());
  Tensor negative = Named("negative", {1});
  negative.lr_multiplier = -1;
  EXPECT_FALSE(tensors.Add(negative).ok());
  EXPECT_EQ(tensors.size(), 0);
}

TEST(StepBookTest, AChunkIsCompleteOnceAllTensorsThatReachIntoItArePublished) {
  TensorSet tensors;
  ASSERT_TRUE(tensors.Add(Named("a", {3})).ok());   // chunk 0
  ASSERT_TRUE(tensors.Add(Named("b", {10})).ok());  // chunks 0 to 3
  ASSERT_TRUE(tensors.Add(Named("c", {1})).ok());   // chunk 3
  StepBook book(tensors, ChunkMap(14, 4));
  for (int step = 0; step < 2; ++step) {
    book.Begin();
    EXPECT_EQ(Publish(&book, 1), (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(Publish(&book, 2), (std::vector<uint32_t>{3}));
    EXPECT_FALSE(book.published(0));
    EXPECT_EQ(Publish(&book, 0), (std::vector<uint32_t>{0}));
    EXPECT_TRUE(book.published(0));
  }
}

}  // namespace
}  // namespace strata::client
