# SPDX-License-Identifier: Apache-2.0
# What a build needs, each with the Debian package that has it: who lacks several is told of all of them at once.
find_package(PkgConfig QUIET)
set_property(GLOBAL PROPERTY xfer_missing)
if(NOT PkgConfig_FOUND)
    set_property(GLOBAL APPEND PROPERTY xfer_missing pkg-config)
endif()

# need_package(NAME DEBIAN_PACKAGE): by find_package.
macro(need_package name debian)
    find_package(${name} QUIET)
    if(NOT ${name}_FOUND)
        set_property(GLOBAL APPEND PROPERTY xfer_missing ${debian})
    endif()
endmacro()

# need_modules(TARGET MODULE=DEBIAN_PACKAGE...): by pkg-config, together as PkgConfig::TARGET.
macro(need_modules target)
    set(modules)
    foreach(pair ${ARGN})
        string(REGEX MATCH "^([^=]+)=(.+)$" pair ${pair})
        list(APPEND modules ${CMAKE_MATCH_1})
        set(debian ${CMAKE_MATCH_2})
        if(PkgConfig_FOUND)
            pkg_check_modules(need_${CMAKE_MATCH_1} QUIET ${CMAKE_MATCH_1})
        endif()
        list(GET modules -1 module)
        if(NOT need_${module}_FOUND)
            set_property(GLOBAL APPEND PROPERTY xfer_missing ${debian})
        endif()
    endforeach()
    if(PkgConfig_FOUND)
        pkg_check_modules(${target} QUIET IMPORTED_TARGET ${modules})
    endif()
endmacro()

# need_end(): ends the configuration if anything is missing.
function(need_end)
    get_property(missing GLOBAL PROPERTY xfer_missing)
    if(missing)
        list(JOIN missing " " packages)
        # An indented line is not wrapped.
        message(FATAL_ERROR "what libxfer needs is not installed; on Debian:\n"
                            "  apt-get install ${packages}\n")
    endif()
endfunction()
