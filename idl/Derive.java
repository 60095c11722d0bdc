import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.thrift.TBase;
import org.apache.thrift.TEnum;
import org.apache.thrift.TException;
import org.apache.thrift.TFieldIdEnum;
import org.apache.thrift.TFieldRequirementType;
import org.apache.thrift.TUnion;
import org.apache.thrift.meta_data.EnumMetaData;
import org.apache.thrift.meta_data.FieldMetaData;
import org.apache.thrift.meta_data.FieldValueMetaData;
import org.apache.thrift.meta_data.ListMetaData;
import org.apache.thrift.meta_data.MapMetaData;
import org.apache.thrift.meta_data.SetMetaData;
import org.apache.thrift.meta_data.StructMetaData;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TType;

/**
 * Prints the wire facts of a Thrift service as a .thrift file, read by reflection from the classes that
 * the Thrift compiler generated into a published jar.
 *
 * <p>Arguments: jar, package, service class, constants class or "-", included service ("fb303") or "-".
 *
 * <p>Sources: metaDataMap (types, requiredness), _Fields (ids), no-argument instances (default values),
 * the nested *_args and *_result classes (methods), TEnum and the constants class. Every field is
 * compared with a second source in the same jar, the TField descriptors that the generated code writes
 * to the wire with; a mismatch ends the program. Not observable, so not printed: primitive defaults of
 * zero, typedef names, comments, the order of declarations.
 */
public final class Derive {
  private final Loader loader;
  private final String pkg;
  private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
  private final Map<String, Class<?>> structs = new TreeMap<>();
  private final Map<String, Class<?>> enums = new TreeMap<>();
  private final Set<String> printed = new LinkedHashSet<>();
  private int checkedFields;

  private Derive(Loader loader, String pkg) {
    this.loader = loader;
    this.pkg = pkg;
  }

  public static void main(String[] args) throws Exception {
    if (args.length != 5) {
      System.err.println("usage: Derive JAR PACKAGE SERVICE CONSTANTS|- INCLUDED|-");
      System.exit(2);
    }
    try (Loader loader = new Loader(args[0])) {
      new Derive(loader, args[1]).run(args[2], args[3], args[4]);
    }
  }

  private void run(String service, String constants, String included) throws Exception {
    for (String name : loader.classNames(pkg)) {
      Class<?> cls = loader.loadClass(name);
      if (TEnum.class.isAssignableFrom(cls)) {
        enums.put(cls.getSimpleName(), cls);
      } else if (TBase.class.isAssignableFrom(cls)) {
        structs.put(cls.getSimpleName(), cls);
      }
    }
    out.printf("// Derived by Derive.java from %s: do not edit.%n", loader.jarName());
    if (!included.equals("-")) {
      out.printf("include \"%s.thrift\"%n", included);
    }
    for (Map.Entry<String, Class<?>> e : enums.entrySet()) {
      printEnum(e.getKey(), e.getValue());
    }
    if (!constants.equals("-")) {
      printConstants(loader.loadClass(pkg + "." + constants));
    }
    for (String name : structs.keySet()) {
      printStruct(name);
    }
    printService(service, included);
    out.flush();
    System.err.printf("%s: %d structs, %d enums, %d fields agree with their descriptors%n",
        service, structs.size(), enums.size(), checkedFields);
  }

  private void printEnum(String name, Class<?> cls) {
    List<TEnum> members = new ArrayList<>();
    for (Object member : cls.getEnumConstants()) {
      members.add((TEnum) member);
    }
    members.sort(Comparator.comparingInt(TEnum::getValue));
    out.printf("%nenum %s {%n", name);
    for (TEnum member : members) {
      out.printf("  %s = %d,%n", ((Enum<?>) member).name(), member.getValue());
    }
    out.println("}");
  }

  private void printConstants(Class<?> cls) throws IllegalAccessException {
    Map<String, Object> values = new TreeMap<>();
    for (Field f : cls.getDeclaredFields()) {
      if (Modifier.isStatic(f.getModifiers()) && Modifier.isPublic(f.getModifiers())) {
        values.put(f.getName(), f.get(null));
      }
    }
    out.println();
    for (Map.Entry<String, Object> e : values.entrySet()) {
      String type = constantType(e.getValue());
      out.printf("const %s %s = %s%n", type, e.getKey(), literal(e.getValue()));
    }
  }

  private static String constantType(Object value) {
    if (value instanceof String) {
      return "string";
    }
    if (value instanceof Byte) {
      return "i8";
    }
    if (value instanceof Short) {
      return "i16";
    }
    if (value instanceof Integer) {
      return "i32";
    }
    if (value instanceof Long) {
      return "i64";
    }
    throw new IllegalStateException("constant of " + value.getClass());
  }

  /** Prints a struct after every struct that it uses, so that one-pass parsers can read the file. */
  private void printStruct(String name) throws Exception {
    if (!printed.add(name)) {
      return;
    }
    List<FieldFact> fields = fields(structs.get(name));
    for (FieldFact f : fields) {
      for (String used : f.type.split("[<>,]")) {
        if (structs.containsKey(used)) {
          printStruct(used);
        }
      }
    }
    Class<?> cls = structs.get(name);
    boolean union = TUnion.class.isAssignableFrom(cls);
    String kind = union ? "union" : TException.class.isAssignableFrom(cls) ? "exception" : "struct";
    out.printf("%n%s %s {%n", kind, name);
    for (FieldFact f : fields) {
      // A union's members are never required, whatever its metadata says.
      out.printf("  %d: %s%s %s%s,%n", f.id, union ? "" : f.requirement, f.type, f.name, f.defaultValue);
    }
    out.println("}");
  }

  private void printService(String service, String included) throws Exception {
    Map<String, Class<?>> arguments = new TreeMap<>();
    Map<String, Class<?>> results = new TreeMap<>();
    for (Class<?> nested : loader.loadClass(pkg + "." + service).getDeclaredClasses()) {
      String name = nested.getSimpleName();
      if (!TBase.class.isAssignableFrom(nested)) {
        continue;
      }
      if (name.endsWith("_args")) {
        arguments.put(name.substring(0, name.length() - 5), nested);
      } else if (name.endsWith("_result")) {
        results.put(name.substring(0, name.length() - 7), nested);
      }
    }
    String parent = included.equals("-") ? "" : " extends " + included + ".FacebookService";
    out.printf("%nservice %s%s {%n", service, parent);
    for (Map.Entry<String, Class<?>> e : arguments.entrySet()) {
      printMethod(e.getKey(), fields(e.getValue()), results.get(e.getKey()));
    }
    out.println("}");
  }

  private void printMethod(String name, List<FieldFact> arguments, Class<?> result) throws Exception {
    String returned = "void";
    List<FieldFact> thrown = new ArrayList<>();
    if (result != null) {
      for (FieldFact f : fields(result)) {
        if (f.id == 0) {
          returned = f.type;
        } else {
          thrown.add(f);
        }
      }
    }
    out.printf("  %s%s %s(%s)%s,%n", result == null ? "oneway " : "", returned, name, list(arguments),
        thrown.isEmpty() ? "" : " throws (" + list(thrown) + ")");
  }

  private static String list(List<FieldFact> fields) {
    List<String> parts = new ArrayList<>();
    for (FieldFact f : fields) {
      parts.add(f.id + ": " + f.type + " " + f.name + f.defaultValue);
    }
    return String.join(", ", parts);
  }

  /** The fields of a generated class by id, checked against its TField descriptors. */
  private List<FieldFact> fields(Class<?> cls) throws Exception {
    Object instance = cls.getDeclaredConstructor().newInstance();
    Map<?, ?> metadata = (Map<?, ?>) cls.getField("metaDataMap").get(null);
    Map<Short, TField> descriptors = descriptors(cls);
    List<FieldFact> facts = new ArrayList<>();
    for (Map.Entry<?, ?> e : metadata.entrySet()) {
      TFieldIdEnum id = (TFieldIdEnum) e.getKey();
      FieldMetaData data = (FieldMetaData) e.getValue();
      TField descriptor = descriptors.remove(id.getThriftFieldId());
      byte wireType = data.valueMetaData.type == TType.ENUM ? TType.I32 : data.valueMetaData.type;
      if (descriptor == null || descriptor.type != wireType || !descriptor.name.equals(id.getFieldName())) {
        throw new IllegalStateException(cls.getName() + "." + id.getFieldName() + ": " + descriptor);
      }
      checkedFields++;
      String type = type(data.valueMetaData, genericType(cls, id));
      Object value = TUnion.class.isAssignableFrom(cls) ? null : defaultOf(instance, id);
      facts.add(new FieldFact(id.getThriftFieldId(), requirement(data), type, id.getFieldName(),
          value == null ? "" : " = " + literal(value)));
    }
    if (!descriptors.isEmpty()) {
      throw new IllegalStateException(cls.getName() + ": descriptors without metadata " + descriptors);
    }
    facts.sort(Comparator.comparingInt(f -> f.id));
    return facts;
  }

  private static Map<Short, TField> descriptors(Class<?> cls) throws IllegalAccessException {
    Map<Short, TField> found = new TreeMap<>();
    for (Field f : cls.getDeclaredFields()) {
      if (f.getType() == TField.class) {
        f.setAccessible(true);
        TField descriptor = (TField) f.get(null);
        found.put(descriptor.id, descriptor);
      }
    }
    return found;
  }

  private static String requirement(FieldMetaData data) {
    switch (data.requirementType) {
      case TFieldRequirementType.REQUIRED:
        return "required ";
      case TFieldRequirementType.OPTIONAL:
        return "optional ";
      default:
        return "";
    }
  }

  /** The declared Java type of a field: names the struct where the metadata holds only a forward reference. */
  private static String genericType(Class<?> cls, TFieldIdEnum id) {
    try {
      return cls.getDeclaredField(id.getFieldName()).getGenericType().getTypeName();
    } catch (NoSuchFieldException absent) {
      return "";  // unions keep one value field
    }
  }

  private String type(FieldValueMetaData meta, String javaType) {
    switch (meta.type) {
      case TType.BOOL: return "bool";
      case TType.BYTE: return "i8";
      case TType.I16: return "i16";
      case TType.I32: return "i32";
      case TType.I64: return "i64";
      case TType.DOUBLE: return "double";
      case TType.STRING: return meta.isBinary() ? "binary" : "string";
      case TType.ENUM: return ((EnumMetaData) meta).enumClass.getSimpleName();
      case TType.LIST:
        // Forward references lose their element metadata's subclass, not its presence.
        return "list<" + type(((ListMetaData) meta).elemMetaData, javaType) + ">";
      case TType.SET:
        return "set<" + type(((SetMetaData) meta).elemMetaData, javaType) + ">";
      case TType.MAP:
        MapMetaData map = (MapMetaData) meta;
        return "map<" + type(map.keyMetaData, javaType) + "," + type(map.valueMetaData, javaType) + ">";
      case TType.STRUCT:
        return meta instanceof StructMetaData
            ? ((StructMetaData) meta).structClass.getSimpleName() : forwardReference(meta, javaType);
      default:
        throw new IllegalStateException("wire type " + meta.type);
    }
  }

  private String forwardReference(FieldValueMetaData meta, String javaType) {
    if (meta.isTypedef() && structs.containsKey(meta.getTypedefName())) {
      return meta.getTypedefName();
    }
    for (String part : javaType.split("[<>, ]+")) {
      String simple = part.substring(part.lastIndexOf('.') + 1);
      if (structs.containsKey(simple)) {
        return simple;
      }
    }
    throw new IllegalStateException("struct without a class: " + meta.getTypedefName() + " " + javaType);
  }

  /** The value that a fresh instance holds, or null where it is absent or a primitive zero. */
  private static Object defaultOf(Object instance, TFieldIdEnum id) throws ReflectiveOperationException {
    Method getter = null;
    for (Method m : instance.getClass().getMethods()) {
      if (m.getName().equals("getFieldValue") && !m.isBridge()) {
        getter = m;
      }
    }
    Object value;
    try {
      value = getter.invoke(instance, id);
    } catch (InvocationTargetException e) {
      throw new IllegalStateException(instance.getClass() + "." + id.getFieldName(), e.getCause());
    }
    boolean zero = Boolean.FALSE.equals(value) || value instanceof Number && ((Number) value).doubleValue() == 0;
    return zero ? null : value;
  }

  private static String literal(Object value) {
    if (value instanceof String) {
      return "\"" + ((String) value).replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
    if (value instanceof TEnum) {
      return value.getClass().getSimpleName() + "." + ((Enum<?>) value).name();
    }
    if (value instanceof java.util.Collection && ((java.util.Collection<?>) value).isEmpty()) {
      return "[]";
    }
    if (value instanceof Map && ((Map<?, ?>) value).isEmpty()) {
      return "{}";
    }
    if (value instanceof Number || value instanceof Boolean) {
      return value.toString();
    }
    throw new IllegalStateException("default value of " + value.getClass() + ": " + value);
  }

  private static final class FieldFact {
    final short id;
    final String requirement;
    final String type;
    final String name;
    final String defaultValue;

    FieldFact(short id, String requirement, String type, String name, String defaultValue) {
      this.id = id;
      this.requirement = requirement;
      this.type = type;
      this.name = name;
      this.defaultValue = defaultValue;
    }
  }

  /**
   * Loads the jar's classes on an older Java than they were compiled for: Hive 4.2.0 has class files of
   * Java 21 that use nothing newer than 17, so the version number is lowered to the running one.
   */
  private static final class Loader extends ClassLoader implements AutoCloseable {
    private final JarFile jar;

    Loader(String path) throws IOException {
      super(Derive.class.getClassLoader());
      jar = new JarFile(path);
    }

    String jarName() {
      return Path.of(jar.getName()).getFileName().toString();
    }

    List<String> classNames(String pkg) {
      String prefix = pkg.replace('.', '/') + "/";
      List<String> names = new ArrayList<>();
      jar.stream().map(JarEntry::getName).forEach(entry -> {
        boolean topLevel = entry.startsWith(prefix) && entry.indexOf('/', prefix.length()) < 0;
        if (topLevel && entry.endsWith(".class") && !entry.contains("$")) {
          names.add(entry.substring(0, entry.length() - 6).replace('/', '.'));
        }
      });
      return names;
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
      JarEntry entry = jar.getJarEntry(name.replace('.', '/') + ".class");
      if (entry == null) {
        throw new ClassNotFoundException(name);
      }
      try (InputStream in = jar.getInputStream(entry)) {
        byte[] code = in.readAllBytes();
        int running = 44 + Runtime.version().feature();
        int compiled = (code[6] & 0xff) << 8 | code[7] & 0xff;
        if (compiled > running) {
          code[6] = (byte) (running >> 8);
          code[7] = (byte) running;
        }
        return defineClass(name, code, 0, code.length);
      } catch (IOException e) {
        throw new ClassNotFoundException(name, e);
      }
    }

    @Override
    public void close() throws IOException {
      jar.close();
    }
  }
}
