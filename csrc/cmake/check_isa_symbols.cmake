# Fails if a kernel object built for one instruction set defines a symbol the linker may merge with another object's
# copy: the copy it keeps could then hold instructions that this CPU lacks.
# Usage: cmake -DNM=nm -DOBJECTS="a.o;b.o" -P check_isa_symbols.cmake
foreach(object IN LISTS OBJECTS)
  if(NOT object MATCHES "/isa/")
    continue()
  endif()
  execute_process(COMMAND ${NM} -C ${object} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" mergeable "${symbols}")
  if(mergeable)
    list(JOIN mergeable "\n" listing)
    message(FATAL_ERROR "${object} defines mergeable symbols; inline them (VLLM_RS_INLINE) or give them internal linkage:\n${listing}")
  endif()
endforeach()
