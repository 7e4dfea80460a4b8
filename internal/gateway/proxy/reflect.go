package proxy

import (
	"path"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// described returns the descriptors of the services' files and of all that these import. etcd's files import each other
// by their paths in its repository, and are registered by their names alone: a client could link none of them. The
// imports are changed to the registered names.
func described(services map[string]bool) (*protoregistry.Files, error) {
	set, seen := new(descriptorpb.FileDescriptorSet), make(map[string]bool)
	var add func(protoreflect.FileDescriptor) error
	add = func(f protoreflect.FileDescriptor) error {
		if seen[f.Path()] {
			return nil
		}
		seen[f.Path()] = true
		text := proto.CloneOf(protodesc.ToFileDescriptorProto(f))
		for i, name := range text.Dependency {
			imported, err := registered(name)
			if err != nil {
				return err
			}
			text.Dependency[i] = imported.Path()
			if err := add(imported); err != nil {
				return err
			}
		}
		set.File = append(set.File, text)
		return nil
	}
	for name := range services {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			return nil, err
		}
		if err := add(d.ParentFile()); err != nil {
			return nil, err
		}
	}
	return protodesc.NewFiles(set)
}

// registered finds a file by the name in an import.
func registered(name string) (protoreflect.FileDescriptor, error) {
	f, err := protoregistry.GlobalFiles.FindFileByPath(name)
	if err != nil {
		return protoregistry.GlobalFiles.FindFileByPath(path.Base(name))
	}
	return f, nil
}
