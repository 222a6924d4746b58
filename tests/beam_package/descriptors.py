"""Prints the serialized FileDescriptorSet of every Beam proto in an installed apache-beam package.

Its one argument is the package's folder.
"""
import importlib
import pathlib
import sys

from google.protobuf import descriptor_pb2


def main(package):
    root = pathlib.Path(package).parent
    sys.path.insert(0, str(root))
    files = descriptor_pb2.FileDescriptorSet()
    for path in sorted((root / 'apache_beam/portability/api/org').rglob('*_pb2.py')):
        name = '.'.join(path.relative_to(root).with_suffix('').parts)
        importlib.import_module(name).DESCRIPTOR.CopyToProto(files.file.add())
    sys.stdout.buffer.write(files.SerializeToString())


if __name__ == '__main__':
    main(sys.argv[1])
