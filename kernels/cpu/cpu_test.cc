#include <hwy/targets.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/testing/conformance.h"

namespace strata::kernels {
namespace {

using Device = std::function<const Kernels&()>;

const Kernels& TableOf(int64_t targets, const std::string& name) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  static Kernels table;
  table = cpu::MakeTable();
  table.name = name;
  return table;
}

// Results do not depend on the instruction set, so each that this machine has is tested.
std::vector<Device> Devices() {
  // Asked once, before any test narrows what is supported.
  static const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  std::vector<Device> devices = {&Cpu};
  for (int64_t target : targets) {
    const std::string name = std::string("cpu_") + hwy::TargetName(target);
    devices.push_back([=]() -> const Kernels& { return TableOf(target, name); });
  }
  return devices;
}

INSTANTIATE_TEST_SUITE_P(Cpu, KernelsConformance, testing::ValuesIn(Devices()),
                         [](const auto& info) { return info.param().name; });

}  // namespace
}  // namespace strata::kernels
