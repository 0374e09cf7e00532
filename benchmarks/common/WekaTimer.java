// Times one of WEKA's multi-instance classifiers inside a JVM that is already warm.
//
//   java -cp CLASSES:weka.jar WekaTimer ENOUGH_SECONDS MOST_FITS LONGEST BAGS.arff SPLIT CLASS [OPTION...]
//
// SPLIT is "-" or a file: the first line names an ARFF file, the second lists the numbers of its
// training bags, for the accuracies of one more fit, unless a fit takes longer than LONGEST seconds.
// Prints lines of a name and its values for benchmarks/common/weka.py, which compiles it once.

import java.io.BufferedReader;
import java.io.FileReader;
import java.io.FileWriter;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import weka.classifiers.Classifier;
import weka.core.Instance;
import weka.core.Instances;
import weka.filters.Filter;

public class WekaTimer {

  /** CPU time of this thread and of the garbage collector; that of the compiler is left out. */
  static double cpu() {
    double seconds = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() / 1e9;
    for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
      seconds += collector.getCollectionTime() / 1e3;
    }
    return seconds;
  }

  static double wall() {
    return System.nanoTime() / 1e9;
  }

  /** A line of /proc/self/status in bytes, NaN where there is none. */
  static double status(String field) {
    try {
      for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
        if (line.startsWith(field + ":")) {
          return 1024.0 * Double.parseDouble(line.replaceAll("[^0-9]", ""));
        }
      }
    } catch (Exception error) {
      return Double.NaN;
    }
    return Double.NaN;
  }

  static double settledMemory() {
    System.gc();
    try (FileWriter file = new FileWriter("/proc/self/clear_refs")) {
      file.write("5");
    } catch (Exception error) {
      return Double.NaN;
    }
    return status("VmRSS");
  }

  static Instances read(String path) throws Exception {
    try (BufferedReader reader = new BufferedReader(new FileReader(path))) {
      Instances data = new Instances(reader);
      data.setClassIndex(data.numAttributes() - 1);
      return data;
    }
  }

  static Instances subset(Instances data, Set<Integer> wanted, boolean inside) {
    Instances part = new Instances(data, 0);
    for (int i = 0; i < data.numInstances(); i++) {
      if (wanted.contains(i) == inside) {
        part.add(data.instance(i));
      }
    }
    return part;
  }

  static double accuracy(Classifier model, Instances data) throws Exception {
    int right = 0;
    for (int i = 0; i < data.numInstances(); i++) {
      if (model.classifyInstance(data.instance(i)) == data.instance(i).classValue()) {
        right++;
      }
    }
    return (double) right / data.numInstances();
  }

  /** Options in which "1.5@" becomes 1.5 times the number of bags over that of instances. */
  static Classifier fresh(String name, String[] options, Instances bags) throws Exception {
    String[] filled = options.clone();
    double instances = 0;
    for (int i = 0; i < bags.numInstances(); i++) {
      instances += bags.instance(i).relationalValue(1).numInstances();
    }
    for (int i = 0; i < filled.length; i++) {
      if (filled[i].endsWith("@")) {
        double value = Double.parseDouble(filled[i].substring(0, filled[i].length() - 1));
        filled[i] = String.valueOf(value * bags.numInstances() / instances);
      }
    }
    return Classifier.forName(name, filled);
  }

  static Object get(Object object, String name) throws Exception {
    for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
      try {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
      } catch (NoSuchFieldException missing) {
        continue;
      }
    }
    throw new NoSuchFieldException(name);
  }

  static double output(Object svm, Instance instance) throws Exception {
    Method method =
        svm.getClass().getDeclaredMethod("SVMOutput", int.class, Instance.class);
    method.setAccessible(true);
    return (Double) method.invoke(svm, -1, instance);
  }

  static double squareNorm(Object svm) throws Exception {
    double sum = 0;
    double[] sparse = (double[]) get(svm, "m_sparseWeights");
    if (sparse != null) {
      for (double weight : sparse) {
        sum += weight * weight;
      }
      return sum;
    }
    double[] alpha = (double[]) get(svm, "m_alpha");
    double[] label = (double[]) get(svm, "m_class");
    Instances data = (Instances) get(svm, "m_data");
    double b = (Double) get(svm, "m_b");
    for (int i = 0; i < alpha.length; i++) {
      if (alpha[i] > 0) {
        sum += alpha[i] * label[i] * (output(svm, data.instance(i)) + b);
      }
    }
    return sum;
  }

  static Instances through(Classifier model, Instances data, String filter) throws Exception {
    Filter fitted = (Filter) get(model, filter);
    return fitted == null ? data : Filter.useFilter(data, fitted);
  }

  /** Scores of instances (MISVM) or bags (MISMO), and the square norm of their SVM. */
  static void printSolution(Classifier model, Instances bags) throws Exception {
    Object svms;
    Instances rows;
    if (model instanceof weka.classifiers.mi.MISVM) {
      svms = get(get(model, "m_SVM"), "m_classifiers");
      rows = through(model, bags, "m_ConvertToProp");
      rows.deleteAttributeAt(0);
      rows = through(model, rows, "m_Filter");
    } else if (model instanceof weka.classifiers.mi.MISMO) {
      svms = get(model, "m_classifiers");
      rows = bags;
    } else {
      return;
    }
    Object svm = ((Object[][]) svms)[0][1];
    System.out.println("square_norm " + squareNorm(svm));
    StringBuilder line = new StringBuilder("scores");
    for (int i = 0; i < rows.numInstances(); i++) {
      line.append(' ').append(output(svm, rows.instance(i)));
    }
    System.out.println(line);
  }

  public static void main(String[] args) throws Exception {
    double enough = Double.parseDouble(args[0]);
    int most = Integer.parseInt(args[1]);
    double longest = Double.parseDouble(args[2]);
    Instances bags = read(args[3]);
    String name = args[5];
    String[] options = Arrays.copyOfRange(args, 6, args.length);

    // A few bags load the classes.
    Instances few = new Instances(bags, 0);
    int[] seen = new int[2];
    for (int i = 0; i < bags.numInstances(); i++) {
      int label = (int) bags.instance(i).classValue();
      if (seen[label]++ < 3) {
        few.add(bags.instance(i));
      }
    }
    Classifier model = fresh(name, options, few);
    model.buildClassifier(few);
    accuracy(model, few);

    double before = settledMemory();
    double spent = 0, first = 0;
    int count = 0;
    StringBuilder times = new StringBuilder("fit");
    StringBuilder walls = new StringBuilder("fit_wall");
    while (spent < enough && count < most) {
      model = fresh(name, options, bags);
      double start = cpu(), at = wall();
      model.buildClassifier(bags);
      times.append(' ').append(cpu() - start);
      walls.append(' ').append(wall() - at);
      spent += wall() - at;
      if (count++ == 0) {
        first = wall() - at;
        System.out.println("fit_memory " + (status("VmHWM") - before));
      }
    }
    System.out.println(times);
    System.out.println(walls);

    before = settledMemory();
    spent = 0;
    count = 0;
    times = new StringBuilder("predict");
    walls = new StringBuilder("predict_wall");
    while (spent < enough && count < most) {
      double start = cpu(), at = wall();
      accuracy(model, bags);
      times.append(' ').append(cpu() - start);
      walls.append(' ').append(wall() - at);
      spent += wall() - at;
      if (count++ == 0) {
        System.out.println("predict_memory " + (status("VmHWM") - before));
      }
    }
    System.out.println(times);
    System.out.println(walls);
    printSolution(model, bags);

    if (!args[4].equals("-") && first < longest) {
      List<String> split = Files.readAllLines(Paths.get(args[4]));
      Instances all = read(split.get(0));
      Set<Integer> train = new HashSet<>();
      for (String number : split.get(1).trim().split(" ")) {
        train.add(Integer.parseInt(number));
      }
      Instances part = subset(all, train, true);
      model = fresh(name, options, part);
      model.buildClassifier(part);
      System.out.println("train_accuracy " + accuracy(model, part));
      System.out.println("test_accuracy " + accuracy(model, subset(all, train, false)));
    }
  }
}
