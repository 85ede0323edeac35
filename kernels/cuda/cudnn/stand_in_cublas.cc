// A libcublas.so.13, as stand_in_cudnn.cc.
extern "C" {

#define STRATA_STAND_IN(name) \
  void name() {}
STRATA_STAND_IN(cublasCreate_v2)
STRATA_STAND_IN(cublasDestroy_v2)
STRATA_STAND_IN(cublasSetStream_v2)
STRATA_STAND_IN(cublasSetMathMode)
STRATA_STAND_IN(cublasSetWorkspace_v2)
STRATA_STAND_IN(cublasGetStatusString)
STRATA_STAND_IN(cublasGemmEx)
}
