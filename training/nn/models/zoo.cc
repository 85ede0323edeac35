#include "training/nn/models/zoo.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/zoo/zoo.h"
#include "training/nn/models/families.h"

namespace strata::worker {
namespace {

// Empty where there is none.
std::vector<LayerSpec> LayersOf(const std::string& name, uint32_t classes) {
  if (name == "mlp") return Mlp(classes);
  if (name == "lenet5") return LeNet5();
  if (name == "cnn") return Cnn(classes);
  if (name == "resnet8") return CifarResNet(1, classes);
  if (name == "resnet20") return CifarResNet(3, classes);
  if (name == "alexnet") return AlexNet(classes);
  if (name == "vgg16") return Vgg16(classes);
  if (name == "googlenet") return GoogLeNet(classes);
  if (name == "resnet50") return ResNet50(classes);
  return {};
}

}  // namespace

absl::StatusOr<ModelSpec> MakeModel(const std::string& name, const Shape& input, uint32_t classes,
                                    const std::string& data) {
  const absl::Status fits =
      CheckZooInput(name, data, {input.channels, input.height, input.width, classes});
  if (!fits.ok()) return fits;
  ModelSpec model{name, input, LayersOf(name, classes)};
  const auto shapes = FollowShapes(model);
  if (!shapes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", name, " does not fit ", data, " (images of ", input.channels, " x ", input.height,
        " x ", input.width, ", ", classes, " classes): ", std::string(shapes.status().message())));
  }
  return model;
}

}  // namespace strata::worker
