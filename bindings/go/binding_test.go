// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"xfer/internal/ctest"
)

func versionMatches(p *place) {
	p.ok(matching(Version(), HeaderVersion))
	p.true(VersionString() == dotted(Version()), VersionString())
	for _, other := range [][2]uint32{{0x000200, 0x000101}, {0x000101, 0x000200}, {0x010000, 0x000101}, {0x010000, 0x010001}} {
		err := p.fails(matching(other[0], other[1]), ErrVersion)
		p.true(strings.Contains(err.Text, dotted(other[0])) && strings.Contains(err.Text, dotted(other[1])), err)
	}
	p.ok(matching(0x010200, 0x010101))
}

func statusesComplete(p *place) {
	named := map[string]string{}
	source := string(must(os.ReadFile("status.go")))
	for _, found := range regexp.MustCompile(`(?m)^\tErr(\w+) +Status = C\.(\w+)`).FindAllStringSubmatch(source, -1) {
		p.true("XFER_E"+strings.ToUpper(found[1]) == found[2], found[0])
		named[found[2]] = found[1]
	}
	all := Statuses()
	for _, status := range all {
		_, is := named[status.Error()]
		p.true(is || status == 0, status)
	}
	p.true(len(all) == len(named)+1, len(all), len(named))
	p.true(ErrTimedOut.Error() == "XFER_ETIMEDOUT" && ErrTimedOut.Text() != "")
}

// include is where the headers are that this package was built with.
func include() string {
	return strings.TrimSpace(string(must(exec.Command("pkg-config", "--variable=includedir", "xfer").Output())))
}

func layoutsMatch(p *place) {
	structs := ctest.Structs()
	var headers string
	for _, name := range []string{"xfer.h", "text.h", "rdma.h"} {
		headers += string(must(os.ReadFile(include() + "/xfer/" + name)))
	}
	for _, found := range regexp.MustCompile(`(?m)^} (xfer_\w+_t);`).FindAllStringSubmatch(headers, -1) {
		p.true(structs[found[1]] != nil, found[1])
	}
	var program, expected strings.Builder
	program.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include <xfer/rdma.h>\n#include <xfer/text.h>\nint main(void) {\n")
	for name, of := range structs {
		fmt.Fprintf(&program, "printf(\"%s %%zu\\n\", sizeof(%s));\n", name, name)
		fmt.Fprintf(&expected, "%s %d\n", name, of.Size())
		for i := range of.NumField() {
			field := of.Field(i)
			fmt.Fprintf(&program, "printf(\"%s %%zu\\n\", offsetof(%s, %s));\n", field.Name, name, field.Name)
			fmt.Fprintf(&expected, "%s %d\n", field.Name, field.Offset)
		}
	}
	program.WriteString("return 0; }\n")
	folder := p.TempDir()
	p.ok(os.WriteFile(folder+"/layout.c", []byte(program.String()), 0o600))
	output, err := exec.Command("cc", "-I", include(), "-o", folder+"/layout", folder+"/layout.c").CombinedOutput()
	p.true(err == nil, string(output))
	p.true(string(must(exec.Command(folder+"/layout").Output())) == expected.String(), "as cgo has them")
	for of, name := range map[reflect.Type]string{reflect.TypeOf(ID{}): "xfer_id_t", reflect.TypeOf(OpStats{}): "xfer_op_stats_t",
		reflect.TypeOf(EngineStats{}): "xfer_engine_stats_t", reflect.TypeOf(EndpointStats{}): "xfer_ep_stats_t"} {
		p.true(of.Size() == structs[name].Size() && of.NumField() == structs[name].NumField(), name)
		for i := range of.NumField() {
			p.true(of.Field(i).Offset == structs[name].Field(i).Offset, name, of.Field(i).Name)
		}
	}
}

func unknownValues(p *place) {
	e, events := p.open()
	p.true(!e.core.deliver(event{kind: 999, status: -999, user: 5, data: []byte("what is this")}))
	unknown := told[*Unknown](p, events)
	p.true(unknown.Kind == 999 && unknown.Status == -999 && unknown.Status.Error() == "XFER_EUNKNOWN", unknown)
	for kind := range uint32(30) {
		if kind != 9 { // PEER has a handle
			e.core.deliver(event{kind: kind, status: -999, flags: 1 << 30, user: 1 << 40, index: 1 << 50})
		}
	}
	p.true(told[*QuietFailed](p, events).Err.Status == -999)
	p.true(MemoryKind(99).String() == "XFER_MEM_UNKNOWN" && Transport(99).String() == "XFER_TRANSPORT_UNKNOWN")
	p.true((&Error{Origin: 99, NativeCode: 7}).NativeText() == "origin 99, code 7")
	p.ok(e.Close())
}

func openCloseJoin(p *place) {
	count := func(of string) int { return len(must(os.ReadDir("/proc/self/" + of))) }
	resident := func() uint64 {
		var pages, kept uint64
		must(fmt.Sscan(string(must(os.ReadFile("/proc/self/statm"))), &pages, &kept))
		return kept * uint64(os.Getpagesize())
	}
	open := func(times int) {
		for range times {
			e := must(Open(Options{}))
			must(e.Listen("tcp://127.0.0.1:0", ListenOptions{}))
			must(e.Alloc(1<<20, RegionOptions{}))
			p.ok(e.Close())
		}
		runtime.GC()
	}
	open(10)
	files, threads, goroutines, memory := count("fd"), count("task"), runtime.NumGoroutine(), resident()
	open(100)
	p.eventually("as many goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
	p.true(count("fd") <= files, "files: ", count("fd"), files)
	p.true(count("task") < threads+20, "Go may start some threads, and an engine has at least one: ", count("task"), threads)
	p.true(resident() < memory+20<<20, "less than a fifth of a MiB each: ", resident(), memory)
}

func errorDetail(p *place) {
	e, _ := p.open()
	uri := must(e.Listen("tcp://127.0.0.1:0", ListenOptions{}))
	_, err := e.Listen(uri, ListenOptions{})
	detail := p.fails(err, ErrAddrInUse, syscall.EADDRINUSE)
	p.true(detail.Origin == OriginOS && strings.EqualFold(detail.NativeText(), syscall.EADDRINUSE.Error()), detail)
	p.true(strings.Contains(detail.Text, uri[len("tcp://"):]) && strings.Contains(err.Error(), "XFER_EADDRINUSE"), err)
}

// Go itself never forks without an exec; C that a program links may.
func forkRefused(p *place) {
	c := p.pair()
	memory := must(c.owner.Alloc(4096, RegionOptions{})).Bytes()
	p.true(ctest.LetThrough(unsafe.Pointer(c.engine.core.raw), unsafe.Pointer(c.region.raw), unsafe.Pointer(c.ep.raw),
		unsafe.Pointer(&memory[0])) == 0, "a child was let through")
	c.ok(c.ep.Put(c.patient(), []byte("parent"), c.ref, 0))
	c.true(string(c.lent()[:6]) == "parent")
}

// What cgo compiles is compiled here, with the header of another minor version.
func headerOfAnotherVersion(p *place) {
	source := string(must(os.ReadFile("version.go")))
	_, rest, _ := strings.Cut(source, "/*")
	preamble, _, _ := strings.Cut(rest, "*/")
	preamble = strings.ReplaceAll(preamble, "#cgo pkg-config: xfer\n", "")
	define := regexp.MustCompile(`(?m)^(#define XFER_VERSION_MINOR +)\d+`)
	compile := func(minor string) (string, error) {
		folder := p.TempDir()
		p.ok(os.Mkdir(folder+"/xfer", 0o700))
		for _, header := range must(filepath.Glob(include() + "/xfer/*.h")) {
			text := string(must(os.ReadFile(header)))
			text = define.ReplaceAllString(text, "${1}"+minor)
			p.ok(os.WriteFile(folder+"/xfer/"+filepath.Base(header), []byte(text), 0o600))
		}
		p.ok(os.WriteFile(folder+"/preamble.c", []byte(preamble), 0o600))
		output, err := exec.Command("cc", "-I", folder, "-fsyntax-only", folder+"/preamble.c").CombinedOutput()
		return string(output), err
	}
	major, minor := Version()>>16, Version()>>8&0xff
	_, err := compile(fmt.Sprint(minor))
	p.ok(err)
	output, err := compile(fmt.Sprint(minor + 1))
	p.true(err != nil && strings.Contains(output, fmt.Sprintf("for libxfer %d.%d", major, minor)) &&
		strings.Contains(output, fmt.Sprintf("of libxfer %d.%d", major, minor+1)), output)
}

// sample is a text that an option of that kind takes, and one that it does not.
func sample(o OptionInfo) (good, bad string) {
	switch o.Kind {
	case OptionNumber:
		return "1", "many"
	case OptionFlag:
		return "yes", "perhaps"
	case OptionHex:
		return strings.Repeat("0a", 16), "0g"
	case OptionChoice:
		return strings.Split(o.Values, "|")[0], "none of them"
	}
	return "tcp", ""
}

func everyOptionSettable(p *place) {
	all := EngineOptions()
	p.true(len(all) > 20, len(all))
	for _, o := range all {
		good, bad := sample(o)
		if o.Name == "dispatch" {
			good = "poll"
		}
		_, free, err := (&Options{Set: map[string]string{o.Name: good}}).raw()
		free()
		p.true(err == nil && o.Help != "", o, err)
		if bad == "" {
			continue
		}
		_, err = Open(Options{Set: map[string]string{o.Name: bad}})
		p.true(strings.Contains(p.fails(err, ErrInval).Text, o.Name), err)
	}
	_, err := Open(Options{Set: map[string]string{"no_such_option": "1"}})
	p.true(strings.Contains(p.fails(err, ErrNotFound).Text, "no_such_option"), err)
	_, err = Open(Options{Set: map[string]string{"dispatch": "thread"}})
	p.fails(err, ErrUnsupported)
	_, err = Open(Options{Key: []byte("short")})
	p.fails(err, ErrInval)
	e, _ := p.open("lanes", "2", "max_operations", "77", "id", strings.Repeat("0b", 16))
	described := must(e.Describe())
	p.true(strings.Contains(described, `"lanes": 2`) && strings.Contains(described, `"max_operations": 77`), described)
	p.true(must(e.ID()).Bytes[15] == 0x0b)
	rdmaOptions(p)
}

func rdmaOptions(p *place) {
	given := &RDMAOptions{"none", 64, 18, -1, 104, 3}
	e := must(Open(Options{}))
	defer e.Close()
	if must(e.Transports())>>TransportRDMA&1 == 0 {
		_, err := Open(Options{RDMA: given})
		p.fails(err, ErrUnsupported)
		return
	}
	described := func(options *RDMAOptions) string {
		e := must(Open(Options{RDMA: options}))
		defer e.Close()
		return strings.Join(strings.Fields(must(e.Describe())), "")
	}
	said := described(given)
	p.true(strings.Contains(said, `{"devices":"none","queue_depth":64,"ack_timeout":18,"retries":0,`), said)
	p.true(strings.Contains(said, `"traffic_class":104,"service_level":3}`), said)
	said = described(&RDMAOptions{})
	p.true(strings.Contains(said, `"queue_depth":128,"ack_timeout":14,"retries":6,"traffic_class":0,"service_level":0}`), said)
	_, err := Open(Options{RDMA: &RDMAOptions{Retries: 7}})
	p.true(strings.Contains(p.fails(err, ErrInval).Text, "retries"), err)
	_, err = Open(Options{RDMA: &RDMAOptions{Devices: "mlx5_0:none"}})
	p.true(strings.Contains(p.fails(err, ErrInval).Text, "mlx5_0:none"), err)
	_, err = Open(Options{RDMA: &RDMAOptions{Devices: "none\x00"}})
	p.fails(err, ErrInval)
}

func FuzzOptions(f *testing.F) {
	for _, o := range EngineOptions() {
		good, bad := sample(o)
		f.Add(o.Name, good)
		f.Add(o.Name, bad)
	}
	f.Add("no_such_option", "1")
	f.Add("transports\x00", "tcp")
	f.Add("key", "a\x00b")
	f.Fuzz(func(t *testing.T, name, value string) {
		given, free, err := (&Options{Set: map[string]string{name: value}}).raw()
		defer free()
		if err == nil && strings.Contains(name+value, "\x00") {
			t.Error("what is behind a NUL was passed over")
		}
		known := false
		for _, o := range EngineOptions() {
			known = known || o.Name == name
		}
		if err == nil && !known {
			t.Error("no option has that name")
		}
		if _, is := err.(*Error); err != nil && !is {
			t.Error(err)
		}
		if int(given.size) == 0 {
			t.Error("no size")
		}
	})
}
