#!/bin/sh
# Derives the .thrift files of this folder from the jars that Hive publishes.
#   idl/derive.sh [OUTPUT_DIR [VERSION...]]     default: this folder, every version
# Needs a JDK (17 or newer) and Maven. Downloads are kept in .testbed/idl.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../.testbed/idl
out=${1:-$here}
[ $# -gt 0 ] && shift

# version, jar that holds the generated classes, the libthrift that they were generated for
table='
2.3.9  org.apache.hive:hive-metastore                    0.9.3
2.3.10 org.apache.hive:hive-metastore                    0.9.3
3.1.3  org.apache.hive:hive-standalone-metastore         0.9.3
4.0.0  org.apache.hive:hive-standalone-metastore-common  0.16.0
4.0.1  org.apache.hive:hive-standalone-metastore-common  0.16.0
4.1.0  org.apache.hive:hive-standalone-metastore-common  0.16.0
4.2.0  org.apache.hive:hive-standalone-metastore-common  0.16.0
'

fetch() { # group:artifact:version -> path of the jar
  name=${1#*:}
  jar=$cache/$(echo "$name" | tr : -).jar
  [ -s "$jar" ] || mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
    -Dartifact="$1" -DoutputDirectory="$cache" </dev/null >&2
  echo "$jar"
}

derive() { # class path, then the arguments of Derive; the file is replaced only when it is whole
  target=$1 classpath=$2
  shift 2
  java -Dorg.slf4j.simpleLogger.defaultLogLevel=off -cp "$classpath" Derive "$@" >"$target.new"
  mv "$target.new" "$target"
}

mkdir -p "$cache/classes" "$out"
fb303=$(fetch org.apache.thrift:libfb303:0.9.3)
slf4j=$(fetch org.slf4j:slf4j-api:1.7.36)
javac -Xlint:deprecation -d "$cache/classes" -cp "$(fetch org.apache.thrift:libthrift:0.16.0)" "$here/Derive.java"
derive "$out/fb303.thrift" "$cache/classes:$(fetch org.apache.thrift:libthrift:0.9.3):$slf4j" \
  "$fb303" com.facebook.fb303 FacebookService - -

echo "$table" | while read -r version artifact thrift; do
  [ -n "$version" ] || continue
  case " ${*:-$version} " in *" $version "*) ;; *) continue ;; esac
  jar=$(fetch "$artifact:$version")
  libthrift=$(fetch "org.apache.thrift:libthrift:$thrift")
  derive "$out/hive_metastore-$version.thrift" "$cache/classes:$libthrift:$slf4j:$fb303" \
    "$jar" org.apache.hadoop.hive.metastore.api ThriftHiveMetastore hive_metastoreConstants fb303
done
