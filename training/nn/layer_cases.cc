#include "training/nn/layer_cases.h"

namespace strata::worker {
namespace {

LayerSpec Conv(const char* name, uint32_t outputs, uint32_t kernel, uint32_t stride = 1) {
  return {name, Convolution{
                    .outputs = outputs, .kernel = kernel, .padding = kernel / 2, .stride = stride}};
}

const LayerSpec kFork{"f", Fork{}}, kBranch{"b", Branch{}}, kConcat{"c", Concat{}};
const LayerSpec kFlatten{"flatten", Flatten{}}, kLast{"last", InnerProduct{4}};
constexpr Shape kPlane{2, 6, 5};

LayerCase Inception() {
  return {"Inception",
          {4, 6, 6},
          {Conv("m", 16, 3),
           {"mr", Relu{}},
           kFork,
           Conv("a", 16, 1),
           {"an", BatchNorm{}},
           {"ar", Relu{}},
           kBranch,
           Conv("b0", 8, 1),
           {"bn", BatchNorm{}},
           {"br", Relu{}},
           Conv("b1", 12, 3),
           {"b1n", BatchNorm{}},
           {"b1r", Relu{}},
           {"c2", Branch{}},
           Conv("c0", 4, 5),
           {"cr", Relu{}},
           {"d", Branch{}},
           {"dp", MaxPool{3, 1, 1}},
           Conv("d0", 16, 1),
           {"dr", Relu{}},
           kConcat,
           {"p", MaxPool{3, 2, 1}},
           kFlatten,
           kLast}};
}

}  // namespace

std::vector<LayerCase> SimpleLayerCases() {
  const LayerSpec mix{"mix", Convolution{.outputs = 3, .kernel = 3, .padding = 1}};
  const LayerSpec wide{"wide", Convolution{.outputs = 32, .kernel = 3, .padding = 1}};
  return {
      {"InnerProduct", {7, 1, 1}, {kFlatten, {"a", InnerProduct{5}}, kLast}},
      {"InnerProductOnPlanes", kPlane, {{"a", InnerProduct{5}}, kLast}},
      {"InnerProductOnBlockedPlanes", kPlane, {wide, {"a", InnerProduct{5}}, kLast}},
      {"Convolution",
       kPlane,
       {mix, {"a", Convolution{.outputs = 5, .kernel = 3}}, kFlatten, kLast}},
      {"ConvolutionWide",
       {16, 9, 9},
       {wide, {"a", Convolution{.outputs = 16, .kernel = 5, .padding = 2}}, kFlatten, kLast}},
      {"ConvolutionWithoutBias",
       kPlane,
       {{"a", Convolution{.outputs = 4, .kernel = 2, .padding = 1, .bias = false}},
        kFlatten,
        kLast}},
      {"ConvolutionLikeLeNets",
       {1, 12, 12},
       {{"a", Convolution{.outputs = 6, .kernel = 5, .padding = 2}},
        {"pool", MaxPool{}},
        {"b", Convolution{.outputs = 16, .kernel = 5}},
        kFlatten,
        kLast}},
      {"MaxPool", kPlane, {mix, {"a", MaxPool{}}, kFlatten, kLast}},
      {"MaxPoolOverlapping", kPlane, {wide, {"a", MaxPool{3, 2}}, kFlatten, kLast}},
      {"MaxPoolPadded", kPlane, {mix, {"a", MaxPool{3, 2, 1}}, kFlatten, kLast}},
      {"MaxPoolPaddedWide", {3, 7, 8}, {wide, {"a", MaxPool{3, 1, 1}}, kFlatten, kLast}},
      {"GlobalAveragePool", kPlane, {mix, {"a", GlobalAveragePool{}}, kFlatten, kLast}},
      {"GlobalAveragePoolWide", kPlane, {wide, {"a", GlobalAveragePool{}}, kFlatten, kLast}},
      {"AveragePool", kPlane, {mix, {"a", AveragePool{}}, kFlatten, kLast}},
      {"AveragePoolOverlapping", kPlane, {wide, {"a", AveragePool{3, 1}}, kFlatten, kLast}},
      {"Relu", kPlane, {mix, {"a", Relu{}}, kFlatten, kLast}},
      {"ReluFirst", kPlane, {{"a", Relu{}}, kFlatten, kLast}},
      {"ReluOnFlattenedImages", kPlane, {kFlatten, {"a", Relu{}}, kLast}},
      {"BatchNorm", kPlane, {mix, {"a", BatchNorm{}}, kFlatten, kLast}},
      {"BatchNormWide", kPlane, {wide, {"a", BatchNorm{}}, {"r", Relu{}}, kFlatten, kLast}},
      {"BatchNormFirst", kPlane, {{"a", BatchNorm{}}, kFlatten, kLast}},
      {"ConvolutionWithStride",
       kPlane,
       {{"a", Convolution{.outputs = 4, .kernel = 3, .padding = 1, .stride = 2}}, kFlatten, kLast}},
      {"ConvolutionWideWithStride",
       {3, 8, 9},
       {wide,
        {"a", Convolution{.outputs = 16, .kernel = 3, .padding = 1, .stride = 2}},
        kFlatten,
        kLast}},
      {"Flatten", kPlane, {wide, kFlatten, {"a", InnerProduct{6}}, {"r", Relu{}}, kLast}},
  };
}

std::vector<LayerCase> ShortcutCases() {
  const LayerSpec mix{"mix", Convolution{.outputs = 3, .kernel = 3, .padding = 1}};
  const LayerSpec mix2{"mix2", Convolution{.outputs = 3, .kernel = 3, .padding = 1}};
  return {
      {"Residual",
       kPlane,
       {mix, {"f", Fork{}}, mix2, {"r", Relu{}}, {"j", Join{}}, kFlatten, kLast}},
      {"ResidualOfImages",
       kPlane,
       {{"f", Fork{}},
        {"a", Convolution{.outputs = 2, .kernel = 3, .padding = 1}},
        {"j", Join{}},
        {"r", Relu{}},
        kFlatten,
        kLast}},
      {"ResidualAfterReluBeforeRelu",
       kPlane,
       {mix,
        {"r1", Relu{}},
        {"f", Fork{}},
        {"r2", Relu{}},
        mix2,
        {"j", Join{}},
        {"r3", Relu{}},
        kFlatten,
        kLast}},
      {"ResidualWideWithStride",
       {3, 7, 6},
       {{"c", Convolution{.outputs = 16, .kernel = 1}},
        {"r1", Relu{}},
        {"f", Fork{}},
        {"a", Convolution{.outputs = 32, .kernel = 3, .padding = 1, .stride = 2, .bias = false}},
        {"bn", BatchNorm{}},
        {"j", Join{2}},
        {"r2", Relu{}},
        {"f2", Fork{}},
        {"b", Convolution{.outputs = 32, .kernel = 3, .padding = 1}},
        {"j2", Join{}},
        kFlatten,
        kLast}},
  };
}

std::vector<LayerCase> ConcatCases() {
  return {
      {"ConcatOfNarrow",
       kPlane,
       {Conv("m", 3, 3), kFork, Conv("a", 2, 1), kBranch, Conv("b0", 5, 3), kConcat, kFlatten,
        kLast}},
      {"ConcatOfWide",
       {3, 5, 4},
       {Conv("m", 16, 3),
        kFork,
        Conv("a", 32, 1),
        kBranch,
        Conv("b0", 16, 3),
        kConcat,
        {"r", Relu{}},
        Conv("m2", 16, 1),
        kFlatten,
        kLast}},
      {"ConcatOfImagesAndBranchesOfAllKinds",
       kPlane,
       {kFork,
        Conv("a", 2, 1),
        {"ar", Relu{}},
        kBranch,
        {"bp", MaxPool{3, 1, 1}},
        {"br", Relu{}},
        kBranch,
        {"d", Branch{}},
        {"rr", Relu{}},
        {"n", BatchNorm{}},
        kConcat,
        {"r", Relu{}},
        Conv("m", 3, 3),
        kFlatten,
        kLast}},
      // Both branches overwrite their gradients.
      {"ConcatOfRelus",
       kPlane,
       {Conv("m", 16, 3),
        kFork,
        Conv("a", 16, 3),
        {"ar", Relu{}},
        kBranch,
        {"br", Relu{}},
        kConcat,
        kFlatten,
        kLast}},
      Inception(),
  };
}

std::vector<LayerCase> JoinCases() {
  return {
      {"Bottleneck",
       {8, 6, 5},
       {Conv("m", 16, 1),
        {"mr", Relu{}},
        kFork,
        Conv("a", 16, 1),
        {"an", BatchNorm{}},
        {"ar", Relu{}},
        Conv("a2", 16, 3, 2),
        {"a2n", BatchNorm{}},
        {"a2r", Relu{}},
        Conv("a3", 32, 1),
        {"a3n", BatchNorm{}},
        kBranch,
        Conv("s", 32, 1, 2),
        {"sn", BatchNorm{}},
        {"j", Join{}},
        {"r", Relu{}},
        {"f2", Fork{}},
        Conv("e", 32, 1),
        {"j2", Join{}},
        {"r2", Relu{}},
        kFlatten,
        kLast}},
      {"JoinOfThreeBranches",
       kPlane,
       {Conv("m", 4, 3),
        kFork,
        {"ar", Relu{}},
        kBranch,
        Conv("b0", 4, 1),
        {"br", Relu{}},
        {"d", Branch{}},
        {"j", Join{}},
        {"r", Relu{}},
        kFlatten,
        kLast}},
  };
}

}  // namespace strata::worker
