// A libcudnn.so.9 with the functions that are looked up, for cudnn_libraries_test: what calls them
// never runs, but for the version.
#include <cstddef>

extern "C" {

size_t cudnnGetVersion() { return 91234; }

#define STRATA_STAND_IN(name) \
  void name() {}
STRATA_STAND_IN(cudnnGetErrorString)
STRATA_STAND_IN(cudnnGetLastErrorString)
STRATA_STAND_IN(cudnnCreate)
STRATA_STAND_IN(cudnnDestroy)
STRATA_STAND_IN(cudnnSetStream)
STRATA_STAND_IN(cudnnBackendCreateDescriptor)
STRATA_STAND_IN(cudnnBackendDestroyDescriptor)
STRATA_STAND_IN(cudnnBackendSetAttribute)
STRATA_STAND_IN(cudnnBackendGetAttribute)
STRATA_STAND_IN(cudnnBackendFinalize)
STRATA_STAND_IN(cudnnBackendExecute)
}
