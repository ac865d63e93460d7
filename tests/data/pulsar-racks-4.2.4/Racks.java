import org.apache.pulsar.common.policies.data.*;
import org.apache.pulsar.common.util.ObjectMapperFactory;
public class Racks { public static void main(String[] a) throws Exception {
 BookiesRackConfiguration c = new BookiesRackConfiguration();
 c.updateBookie("default","bk1:3181", BookieInfo.builder().rack("rack1").hostname("bk1").build());
 c.updateBookie("default","bk2:3181", BookieInfo.builder().rack("/reg/rack2").build());
 c.updateBookie("isolated","bk3:3181", BookieInfo.builder().rack("/reg/rack 3/").hostname("h\u00fc").build());
 System.out.write(ObjectMapperFactory.getMapper().writer().writeValueAsBytes(c)); System.out.flush();
}}
